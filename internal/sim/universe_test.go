package sim

import (
	"testing"
	"time"
)

// TestSameSeedSameUniverse holds the simulation to its first promise: without it no failing seed could be seen again.
func TestSameSeedSameUniverse(t *testing.T) {
	for seed := uint64(1); seed <= 25; seed++ {
		first, err := Run(seed, Options{})
		if err != nil {
			t.Fatal(err)
		}
		second, err := Run(seed, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if first != second {
			t.Errorf("seed %d:\n%+v\n%+v", seed, first, second)
		}
	}
}

func TestWorkflowsCompile(t *testing.T) {
	for n := range 500 {
		if w := workflowAt(n); w.err != nil {
			t.Fatalf("%v\n%s", w.err, w.source.Source)
		}
	}
}

// TestCalm lives universes in which nothing goes wrong but the work itself: what fails here is no matter of faults.
func TestCalm(t *testing.T) {
	for seed := uint64(1); seed <= 50; seed++ {
		r, err := Run(seed, Options{Calm: true, Partitions: 1 + int(seed%4)})
		if err != nil {
			t.Fatal(err)
		}
		if r.Crashes != 0 || r.Owners != r.Partitions {
			t.Errorf("seed %d: %+v", seed, r)
		}
	}
}

// TestCrashEverywhere kills the process at each boundary of every commit of a few small universes: before an append,
// after it and before its acknowledgement, after its acknowledgement.
func TestCrashEverywhere(t *testing.T) {
	for seed := uint64(1); seed <= 4; seed++ {
		opt := Options{Runs: 3, Span: 10 * time.Second, CrashAt: -1}
		whole, err := Run(seed, opt)
		if err != nil {
			t.Fatal(err)
		}
		for k := 1; k <= min(whole.Boundaries, 250); k++ {
			opt.CrashAt = k
			if _, err := Run(seed, opt); err != nil {
				t.Fatalf("killed at boundary %d: %v", k, err)
			}
		}
	}
}

// TestPlantedPanics: there are universes in which deciders panic, and in which all runs end once the bug is gone. That holds
// in each universe is checked there.
func TestPlantedPanics(t *testing.T) {
	universes, panics := 0, 0
	for seed := uint64(1); universes < 5; seed++ {
		if seed > 100 {
			t.Fatalf("%d universes of %d have panics", universes, seed)
		}
		r, err := Run(seed, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Panics > 0 {
			universes++
		}
		panics += r.Panics
	}
	t.Logf("%d panics", panics)
}
