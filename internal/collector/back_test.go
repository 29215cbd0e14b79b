package collector

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdle checks when memory is given back: not while the program works, and not where there is little.
func TestIdle(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name   string
		before used
		now    used
		want   bool
	}{
		{"after a peak", used{allocated: 900 * mib}, used{910 * mib, 500 * mib, 50 * mib}, true},
		{"it works", used{allocated: 900 * mib}, used{990 * mib, 500 * mib, 50 * mib}, false},
		{"most is live", used{allocated: 900 * mib}, used{910 * mib, 500 * mib, 400 * mib}, false},
		{"little is held", used{}, used{mib, 70 * mib, 10 * mib}, false},
		{"what lived is garbage now", used{allocated: 900 * mib}, used{910 * mib, 500 * mib, 200 * mib}, true},
	} {
		if got := c.now.idle(c.before); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// TestGiveBack checks that memory of a while ago is given back to the system.
func TestGiveBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := use()
		peak := make([]byte, 400<<20)
		for i := 0; i < len(peak); i += 4 << 10 {
			peak[i] = 1
		}
		runtime.KeepAlive(peak)
		if held := use().held; held < before.held+400<<20 {
			t.Fatalf("%d MiB at the peak", held>>20)
		}
		peak = nil   //nolint:ineffassign // the collector may take it now
		runtime.GC() // Go does this every two minutes at rest
		stop := GiveBack()
		synctest.Wait()
		<-time.After(2*lookEvery + 1)
		stop()
		if held := use().held; held > before.held+spare {
			t.Errorf("%d MiB before, %d MiB after", before.held>>20, held>>20)
		}
	})
}

// TestLowestLimit checks that the limits of all control groups above count, as those that systemd makes.
func TestLowestLimit(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a.slice/memory.max": "5000\n", "a.slice/b.service/memory.max": "max\n",
		"a.slice/c.service/memory.max": "700\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]uint64{
		"/a.slice/b.service": 5000, "/a.slice/c.service": 700, "/": math.MaxInt64, "": math.MaxInt64,
		"/none": math.MaxInt64,
	} {
		if got := lowestLimit(root, path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}
