package pgtest

import (
	"sync"
	"testing"
)

// The cluster that all tests of a package share.
var (
	sharing    bool // set by Share, before any test runs
	sharedWith []string
	mu         sync.Mutex
	shared     cluster
	started    bool
)

// Share makes Start give all tests of a package the same cluster, which the first of them starts. A TestMain calls it,
// and calls stop when the tests have ended. The cluster may have additional settings, as those of StartServer. If no
// test needs the data after the end of the shared cluster, "-c", "fsync=off" saves much time.
func Share(settings ...string) (stop func() error) {
	sharing, sharedWith = true, settings
	return func() error { return shared.remove() }
}

func sharedServer(t testing.TB) (dsn string) {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if !started {
		shared.launch(t, sharedWith...) // does not return if it cannot: the next test tries, and reports why it cannot
		started = true
	}
	return shared.dsn()
}

// Lease returns the setting of a lease for the server of Start, as [Server.Lease] does: a second where it is not ours.
func Lease() string {
	mu.Lock()
	defer mu.Unlock()
	return shared.lease()
}
