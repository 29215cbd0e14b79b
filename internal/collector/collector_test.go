package collector

import (
	"runtime"
	"testing"
)

func TestCollectAt(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{live: 0, want: maxPercent},
		{live: 1 << 20, want: maxPercent},
		{live: 16 << 20, want: 900},
		{live: 20 << 20, want: 740},
		{live: 64 << 20, want: 300},
		{live: 128 << 20, want: 200},
		{live: 1 << 30, want: 110},
	} {
		if got := collectAt(c.live, heapRoom); got != c.want {
			t.Errorf("collectAt(%d MiB) = %d, want %d", c.live>>20, got, c.want)
		}
	}
	if got := collectAt(8<<20, 16<<20); got != 300 {
		t.Errorf("with a room of 16 MiB, 8 MiB may grow by %d percent, want 300", got)
	}
}

// TestAfterEachCollection waits for several collections, since the call is armed anew in each.
func TestAfterEachCollection(t *testing.T) {
	calls := make(chan struct{})
	done := make(chan struct{})
	defer close(done)
	go afterEachCollection(func() {
		select {
		case calls <- struct{}{}:
		case <-done:
		}
	})
	for called := 0; called < 4; {
		runtime.GC() // once more, where the next call was armed only after this collection had begun
		select {
		case <-calls:
			called++
		default:
			runtime.Gosched()
		}
	}
}
