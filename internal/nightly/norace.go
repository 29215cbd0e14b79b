//go:build !race

package nightly

// Raced reports whether the race detector watches.
const Raced = false
