// Package house checks, as tests, the rules of this code base that a compiler does not check: which package may import
// which, what a pure package must not use, how long files and functions may be, and what
// documents say of the code.
// It ships nothing.
//
// The layers of packages are in layers.txt.
package house
