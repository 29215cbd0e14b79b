//go:build race

package sqlite

// raced reports whether the race detector is on.
const raced = true
