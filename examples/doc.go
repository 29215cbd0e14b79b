// Package examples has flows and Go programs that do real jobs offline, each with a test.
package examples
