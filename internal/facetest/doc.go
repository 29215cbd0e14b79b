// Package facetest tests package pawl from outside, as programs use it: what its functions return, record and refuse,
// with restarts, crashes and other code in between. What the tests share is in rig_test.go. It ships nothing.
package facetest
