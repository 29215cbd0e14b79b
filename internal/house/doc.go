// Package house checks, as tests, the rules of this code base that a compiler does not check: which package may import
// which, what a pure package must not use, how long files and functions may be, and which words names and comments use.
// It ships nothing.
//
// The tests read the table of rooms and the glossary from ARCHITECTURE.md, so page and code cannot disagree.
package house
