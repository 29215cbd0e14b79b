package sim

import (
	"cmp"
	"flag"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/nightly"
)

var (
	seeds = flag.Int("seeds", 0, "how many seeds TestSeeds runs; 0: 200, and 100 under -short")
	from  = flag.Uint64("from", 1, "the first seed of TestSeeds")
	seed  = flag.Uint64("seed", 0, "one seed, with a trace of its steps")

	clusters = flag.Bool("cluster", false, "machines of a cluster in each universe, not in three of ten")
)

// regressions are seeds that failed once, and what each has shown.
var regressions = map[uint64]string{
	52015619: "the check of a stopped child took for a cause what a reset had copied",
	52035197: "the check of a child's deadline did not know that a parent tells none after it stopped its step",
	52070034: "a detached attempt was taken after both limits, and forgotten until the clock came to its own",
	52059596: "the check of what a retry decides anew took what it had decided for what was kept",
	52055798: "a keyed start whose run another partition had made was told that nothing was saved",
	52057651: "the check of a breaker's probe did not know that a mute one makes way",
	52051367: "the check of a run's labels did not know one whose hook is made again",
	52047275: "the check of a retry took that of a hook for one of the run's work",
	52052014: "the check of a retried compensation asked for what an earlier retry had kept to be named again",
	52054265: "a body called again in a retried compensation showed an older state, which was published before",
	52064789: "the simulation did not say that a remote worker was free whose last report came before it was asked for",
	52072391: "the check of a cancelled scope did not know that a run which is to stop asks its body later",
	52018076: "the check of a breaker took an end for the probe's that had made way for another one",
	52010380: "the check of a child's deadline did not know that its parent's clock stood",
	52011845: "the check of a child's deadline did not know that one that had passed ends it at once",
	52010619: "the check of a retried compensation forgot what an earlier retry had kept",
	52006490: "the check of a child's deadline looked before the batch that made the child had moved it",
	470:      "a start whose key was stored was told that nothing was saved when the next commit failed",
	57:       "a body that asked for the time of an end was said to wait, and nobody called it after a crash",
	5029237:  "an attempt held the only slot for a body that had to do an earlier step again, and waited for the slot",
	5081106:  "a child run by cron lost its own execution limit in a retry after its parent's deadline: no end",
	52053618: "a task timed out while the late answer to an older one was on its way, and nobody got it",
	52000390: "an operator lifted the deadline of a chain by cron shortly before its end: no end",
}

// TestRegressions runs the universes of seeds that failed once. When the simulation changes, a seed may make another
// universe. So each failure also has a small test in the package that was at fault.
func TestRegressions(t *testing.T) {
	for seed, showed := range regressions {
		if _, err := Run(seed, Options{}); err != nil {
			t.Errorf("this seed failed before, since %s:\n%v", showed, err)
		}
	}
}

// TestSeeds runs one universe for each seed. A failure contains the command that repeats it.
func TestSeeds(t *testing.T) {
	if *seed != 0 {
		r, err := Run(*seed, Options{Trace: os.Stdout, Cluster: *clusters})
		t.Logf("%+v", r)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	many := cmp.Or(*seeds, nightly.Few(100, 200))
	start := time.Now()
	var next, failed atomic.Int64
	ran := 0 // next counts one number too many for each goroutine, since each finds out by it that no seed is left
	var total Report
	var mu sync.Mutex
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for {
				n := next.Add(1) - 1
				if n >= int64(many) || failed.Load() >= 5 {
					return
				}
				r, err := Run(*from+uint64(n), Options{Cluster: *clusters})
				if err != nil {
					failed.Add(1)
					t.Errorf("with -cluster=%t: %v", *clusters, err)
				}
				mu.Lock()
				ran++
				total.Steps += r.Steps
				total.Batches += r.Batches
				total.Entries += r.Entries
				total.Runs += r.Runs
				total.Attempts += r.Attempts
				total.Crashes += r.Crashes
				total.Rewound += r.Rewound
				total.Relabelled += r.Relabelled
				total.Returned += r.Returned
				total.Kills += r.Kills
				total.Poisoned += r.Poisoned
				total.Owners += r.Owners
				total.VirtualTime += r.VirtualTime
				mu.Unlock()
			}
		})
	}
	group.Wait()
	took := time.Since(start)
	t.Logf("%d seeds in %s, %.0f a second: %d steps, %d batches, %d entries, %d runs, %d attempts, %d crashes, "+
		"%d owners, %d steps dropped by retries, %d times with labels, %d events given back, "+
		"%d kills by poisonous steps, %d of which were stopped, %s of virtual time",
		ran, took.Round(time.Millisecond), float64(ran)/took.Seconds(), total.Steps, total.Batches, total.Entries,
		total.Runs, total.Attempts, total.Crashes, total.Owners,
		total.Rewound, total.Relabelled, total.Returned,
		total.Kills, total.Poisoned, total.VirtualTime.Round(time.Hour))
}
