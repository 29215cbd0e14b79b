package engine

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/disktest"
	"github.com/pawl-dev/pawl/internal/journal/sqlite"
	"github.com/pawl-dev/pawl/policy"
)

var (
	cuts    = flag.Int("cuts", 20, "how often TestPowerCut cuts the power")
	cutSeed = flag.Uint64("cuts.seed", 0, "the seed of TestPowerCut; 0: a new one each time")
)

// TestPowerCut cuts the power under a working engine. After each cut another engine goes on with what is left: every
// start that was acknowledged is there, and so is every report, and all runs come to their end.
//
// The seed decides what is started and what is lost. It does not decide how the goroutines take turns.
func TestPowerCut(t *testing.T) {
	seed := *cutSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("%d cuts, -cuts.seed=%d", *cuts, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var h *poweredHost
	for n := range *cuts {
		if n%10 == 0 { // a new file now and then
			h = &poweredHost{T: t, disk: disktest.New(t), known: map[core.RunID][]core.StepID{}}
		}
		h.work(1 + random.IntN(12))
		if t.Failed() {
			t.Fatalf("after %d cuts", n)
		}
		left, marks := h.disk.Cut(t, h.disk.CutAnywhere(random), random)
		h.disk = left
		for _, m := range marks {
			a := m.(cutAcknowledgement)
			h.known[a.run] = append(h.known[a.run], a.steps...)
		}
	}
	h.work(0)
}

// poweredHost is a machine that loses its power now and then.
type poweredHost struct {
	*testing.T
	disk  *disktest.Disk
	known map[core.RunID][]core.StepID // the runs whose starts were acknowledged, and their steps whose reports were
}

// cutAcknowledgement is the mark of a start or a report that was acknowledged.
type cutAcknowledgement struct {
	run   core.RunID
	steps []core.StepID
}

// work opens an engine, checks what is known, starts runs and waits until all runs have ended.
func (h *poweredHost) work(starts int) {
	j, err := sqlite.Open(h.disk.Path("pawl.db"), sqlite.Options{})
	if err != nil {
		h.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			h.Error(err)
		}
	}()
	w := &confirmingWorkers{disk: h.disk}
	e, err := New(Config{Journal: j, Workers: w, Owner: "test", Kinds: plans})
	if err != nil {
		h.Fatal(err)
	}
	w.e = e
	if err := e.Open(h.Context()); err != nil {
		h.Fatal(err)
	}
	defer closeEngine(h.T, e)
	for id, reported := range h.known {
		h.check(e, id, reported)
	}
	var all sync.WaitGroup
	for n := range starts {
		all.Go(func() {
			p := []plan{flow("two", task(), task()), flow("three", task(), task(), task())}[n%2]
			s, err := e.Start(context.Background(), StartRequest{Definition: p.definition()})
			if err != nil {
				h.Error(err)
				return
			}
			h.disk.Mark(cutAcknowledgement{run: s.Run})
			h.wait(e, s.Run)
		})
	}
	for id := range h.known {
		h.wait(e, id)
	}
	all.Wait()
	w.confirming.Wait()
}

func (h *poweredHost) wait(e *Engine, id core.RunID) {
	if out, err := e.Result(context.Background(), id); err != nil || out.Phase != core.RunSucceeded {
		h.Errorf("run %s: %s, %v", id, out.Phase, err)
	}
}

// check checks that the engine knows a run, and that the steps with these reports have succeeded.
func (h *poweredHost) check(e *Engine, id core.RunID, reported []core.StepID) {
	r, err := e.Inspect(context.Background(), id)
	if err != nil {
		h.Errorf("the start of run %s was acknowledged: %v", id, err)
		return
	}
	for _, step := range reported {
		if int(step) >= len(r.Steps) || r.Steps[step].Phase != core.StepSucceeded {
			h.Errorf("the report of step %d of run %s was acknowledged, and is lost", step, id)
		}
	}
}

// confirmingWorkers report the end of each task at once, and mark the reports that are durable.
type confirmingWorkers struct {
	e          *Engine
	disk       *disktest.Disk
	confirming sync.WaitGroup
}

func (w *confirmingWorkers) Do(core.Task) (core.TaskEnded, bool) { return core.TaskEnded{}, false }

func (w *confirmingWorkers) Slots(string, string) int { return -1 }

func (w *confirmingWorkers) Dispatch(t core.Task) {
	w.confirming.Add(1)
	w.e.Confirm(t.Token.Run, succeed(t), func(late bool) {
		if !late {
			w.disk.Mark(cutAcknowledgement{t.Token.Run, []core.StepID{t.Token.Step}})
		}
		w.confirming.Done()
	})
}

func (w *confirmingWorkers) Revoke(tok core.Token, _ policy.Kind) {
	w.e.Report(tok.Run, core.TaskStopped{Step: tok.Step, Attempt: tok.Attempt})
}
