package sim

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// TestSameSeedGivesSameUniverse checks what makes failures repeatable: a seed always gives the same universe.
func TestSameSeedGivesSameUniverse(t *testing.T) {
	for seed := uint64(1); seed <= uint64(nightly.Few(5, 25)); seed++ {
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

// TestUniversesWithoutFaults runs universes in which only the work itself fails. So no fault can be the cause of a
// failure here.
func TestUniversesWithoutFaults(t *testing.T) {
	for seed := uint64(1); seed <= uint64(nightly.Few(10, 50)); seed++ {
		r, err := Run(seed, Options{NoFaults: true, Partitions: 1 + int(seed%4)})
		if err != nil {
			t.Fatal(err)
		}
		if r.Crashes != 0 || r.Owners != r.Partitions {
			t.Errorf("seed %d: %+v", seed, r)
		}
	}
}

// TestCrashEverywhere kills the process at each boundary of every commit of a few small universes: before an append,
// between the append and its acknowledgement, and after the acknowledgement.
func TestCrashEverywhere(t *testing.T) {
	for seed := uint64(1); seed <= uint64(nightly.Few(1, 4)); seed++ {
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

// TestRunsEndAfterPlantedPanics checks that some universes have deciders that panic. Each universe itself checks that
// all its runs end once the bug is gone.
func TestRunsEndAfterPlantedPanics(t *testing.T) {
	universes, panics := 0, 0
	for seed := uint64(1); universes < 5; seed++ {
		if seed > 100 {
			t.Fatalf("only %d of %d universes have panics", universes, seed)
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
