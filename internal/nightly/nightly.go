// Package nightly marks what takes too long to run before each change. go test -short leaves it out, and so do make
// test and .ci/run; make nightly and a plain go test run it. It is the only place that asks testing.Short.
package nightly

import "testing"

// Only skips a test under -short. The reason explains why it is long: "it kills processes for a while".
func Only(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip("nightly: " + reason)
	}
}

// OnlyPlain skips a test under -short, as Only does, and under the race detector: one goroutine does all of it, for ten
// times as long, or another process does, which the detector does not watch.
func OnlyPlain(t testing.TB, reason string) {
	t.Helper()
	Only(t, reason)
	if Raced {
		t.Skip("without the race detector: " + reason)
	}
}

// Few returns how often a test repeats the same: few times under -short, else all.
func Few(few, all int) int {
	if testing.Short() {
		return few
	}
	return all
}

// Weekly skips a test that was not requested by its flag. The target is the one of the Makefile that runs it, as make
// weekly does.
func Weekly(t testing.TB, asked bool, target string) {
	t.Helper()
	if !asked {
		t.Skip("weekly: make " + target)
	}
}
