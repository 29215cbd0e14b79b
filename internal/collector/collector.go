// Package collector says when a program that carries many short runs collects garbage.
package collector

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
)

// Go collects garbage when the heap has doubled. A small program that allocates fast, which is what pawl is while it
// carries many short runs, then collects all the time: at 10 MiB of live memory it spends a quarter of its processor
// time on it. So the heap may grow by a certain room more than Go lets it before garbage is collected.
const (
	heapRoom     = 128 << 20
	memoryShares = 8 // the room is at most this part of the memory limit
	usualPercent = 100
	maxPercent   = 1000
)

// Tune applies the rule, now and after each collection. A user who has set GOGC has decided already.
func Tune() {
	if os.Getenv("GOGC") != "" {
		return
	}
	room := min(uint64(heapRoom), memoryLimit()/memoryShares)
	current := usualPercent
	afterEachCollection(func() {
		if p := collectAt(liveHeap(), room); p != current {
			current = p
			debug.SetGCPercent(p)
		}
	})
}

// collectAt returns by how many percent the live heap may grow until the next collection. Steps of ten percent keep it
// from being set again after every collection, since setting it stops the program for a moment.
func collectAt(live, room uint64) int {
	more := room * 100 / max(live, 1)
	return int(min(usualPercent+more/10*10, maxPercent))
}

// afterEachCollection calls do now, and then once after each collection: it is the cleanup of an object that nothing
// uses.
func afterEachCollection(do func()) {
	do()
	type unused struct{ _ *byte } // a pointer keeps it apart from small objects that share a block
	runtime.AddCleanup(&unused{new(byte)}, func(do func()) { afterEachCollection(do) }, do)
}

func liveHeap() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// groups is where Linux shows the control groups.
const groups = "/sys/fs/cgroup"

// memoryLimit returns how much memory this process may use: the lowest of GOMEMLIMIT and the limits of its control
// group and of those above.
func memoryLimit() uint64 {
	limit := uint64(debug.SetMemoryLimit(-1)) // a negative number only asks
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return limit // not Linux
	}
	_, path, _ := strings.Cut(string(bytes.TrimSpace(own)), "0::") // that of version 2; in a container it is /
	return min(limit, lowestLimit(groups, path))
}

// lowestLimit returns the lowest limit of memory of the control group at a path and of those above it.
func lowestLimit(root, path string) uint64 {
	limit := uint64(math.MaxInt64)
	for path = filepath.Clean("/" + path); ; path = filepath.Dir(path) {
		text, err := os.ReadFile(filepath.Join(root, path, "memory.max"))
		if err == nil {
			n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
			if err == nil { // else it says "max": there is none
				limit = min(limit, n)
			}
		}
		if path == "/" {
			return limit
		}
	}
}
