package pgtest

import (
	"sync"
	"testing"
)

// sharing is set by Share, before any test runs.
var (
	sharing bool
	shared  cluster
	launch  sync.Once
)

// Share makes Start give all tests of a package the same cluster, which the first of them starts. A TestMain calls it,
// and calls stop when the tests have ended.
func Share() (stop func() error) {
	sharing = true
	return func() error { return shared.remove() }
}

func sharedServer(t testing.TB) (dsn string) {
	t.Helper()
	launch.Do(func() { shared.launch(t) })
	if shared.port == 0 {
		t.Skip(missing)
	}
	return shared.dsn()
}
