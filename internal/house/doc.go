// Package house holds the rules of this code base that a compiler does not check, as tests: which package may import
// which, what a pure package may not touch, how long files and functions get. It ships nothing.
//
// The table of rooms in rooms_test.go is ARCHITECTURE.md's, in a form a machine can walk: whoever changes one changes
// the other.
package house
