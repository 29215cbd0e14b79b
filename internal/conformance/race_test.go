//go:build race

package conformance

// raced reports whether the race detector is on.
const raced = true
