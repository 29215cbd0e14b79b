package pgtest

import (
	"sync"
	"testing"
)

// The cluster that all tests of a package share.
var (
	sharing bool // set by Share, before any test runs
	mu      sync.Mutex
	shared  cluster
	started bool
)

// Share makes Start give all tests of a package the same cluster, which the first of them starts. A TestMain calls it,
// and calls stop when the tests have ended.
func Share() (stop func() error) {
	sharing = true
	return func() error { return shared.remove() }
}

func sharedServer(t testing.TB) (dsn string) {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if !started {
		shared.launch(t) // does not return if it cannot: the next test tries, and says why it cannot
		started = true
	}
	return shared.dsn()
}
