// Package house checks, as tests, the rules of this code base that a compiler does not check: which package may import
// which, what a pure package must not use, how long files and functions may be, and which words names and comments use.
// It ships nothing.
//
// The layers of packages are in layers.txt, the words that nothing is called in words.txt.
package house
