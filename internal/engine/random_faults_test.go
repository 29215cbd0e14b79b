package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/nightly"
)

// faultRun drives a partition as the engine does, with up to two batches on their way. A seed chooses the order.
// Meanwhile appends fail, acknowledgements are lost and the process crashes.
type faultRun struct {
	*rig
	random       *rand.Rand
	cut          []*journal.Batch    // batches that are not appended yet
	acknowledged map[core.RunID]bool // runs whose caller knows that they were started
	faultsOff    bool
	busy         []core.Task // tasks that a worker has
}

const faultRunSlots = 4

func newFaultRun(t *testing.T, seed uint64) *faultRun {
	s := &faultRun{
		rig: newRig(t, faultRunSlots), random: rand.New(rand.NewPCG(seed, 1)),
		acknowledged: map[core.RunID]bool{},
	}
	s.plans["inner"] = flow("inner", task(), nap(time.Second), task()).definition()
	s.journal.Fault = func(op memory.Op, _ *journal.Batch) error {
		if s.faultsOff || s.random.IntN(25) > 0 {
			return nil
		}
		switch op {
		case memory.OpAppend:
			return []error{journal.ErrFull, errBroken}[s.random.IntN(2)]
		case memory.OpAck:
			return errBroken
		default:
			return nil
		}
	}
	s.journal = s.journal.Reopen() // the new journal still has the fault
	s.restart()
	s.workers.act = func(k core.Task) core.Input {
		s.busy = append(s.busy, k)
		return nil
	}
	s.workers.report = func(id core.RunID, in core.Input) {
		s.inbox = append(s.inbox, report{id, in})
		if stop, ok := in.(core.TaskStopped); ok {
			s.busy = slices.DeleteFunc(s.busy, func(k core.Task) bool {
				return k.Token == core.Token{Run: id, Step: stop.Step, Attempt: stop.Attempt}
			})
		}
	}
	return s
}

func (s *faultRun) crashNow() {
	s.cut, s.busy = nil, nil
	s.restart()
}

func (s *faultRun) reload(err error) {
	s.cut = nil
	s.p.Failed(err)
	if err := s.p.Open(context.Background(), s.now); err != nil {
		s.t.Fatal(err)
	}
}

// appendOldest appends the oldest batch to the journal.
func (s *faultRun) appendOldest() {
	if len(s.cut) == 0 {
		return
	}
	b := s.cut[0]
	s.cut = s.cut[1:]
	if err := s.journal.Append(context.Background(), b); err != nil {
		s.reload(err)
		return
	}
	s.p.Committed(s.now)
}

func (s *faultRun) begin() {
	plans := []plan{
		flow("one", task()),
		flow("nap", task(), nap(3*time.Second), task()),
		flow("flaky", failing(3, time.Second), task()),
		flow("parent", child(payload("inner")), task()), flow("long", nap(20*time.Second), task()),
	}
	timed := task().tries(3, 100*time.Millisecond)
	timed.Timeout = 700 * time.Millisecond
	plans = append(plans, flow("timed", timed))
	p := plans[s.random.IntN(len(plans))]
	c := &StartCall{Start: StartRequest{Definition: p.definition(), Start: core.Start{Input: []byte("1")}}}
	c.Done = func(err error) {
		if err == nil {
			s.acknowledged[c.Answer.Run] = true
		}
	}
	ask(s.rig, c)
}

// deliver finishes one task, and reports the oldest result to the partition.
func (s *faultRun) deliver() {
	if n := len(s.busy); n > 0 {
		i := s.random.IntN(n)
		k := s.busy[i]
		s.busy = slices.Delete(s.busy, i, i+1)
		in := s.work(k)
		if in == nil {
			in = succeed(k)
		}
		s.inbox = append(s.inbox, report{k.Token.Run, in})
	}
	if n := len(s.inbox); n > 0 {
		rep := s.inbox[0]
		s.inbox = s.inbox[1:]
		s.p.Report(rep.run, rep.in, s.now)
		if s.random.IntN(10) == 0 {
			s.p.Report(rep.run, rep.in, s.now) // a worker may report twice
		}
	}
}

// step does one thing that the seed chooses.
func (s *faultRun) step() {
	switch k := s.random.IntN(20); {
	case k < 3:
		s.begin()
	case k < 9:
		s.deliver()
	case k < 13:
		if len(s.cut) < 2 {
			if b := s.p.Cut(s.now); b != nil {
				s.cut = append(s.cut, b)
			}
		}
	case k < 17:
		s.appendOldest()
	case k < 19 || s.random.IntN(20) > 0:
		s.now = s.now.Add(time.Duration(s.random.IntN(400)) * time.Millisecond)
		s.p.Refill(s.now)
		s.p.Tick(s.now)
	default:
		s.crashNow()
	}
	count := map[string]int{}
	for _, k := range s.busy {
		if count[k.Type]++; count[k.Type] > faultRunSlots {
			s.t.Fatalf("more than %d tasks of type %s at once", faultRunSlots, k.Type)
		}
	}
}

// TestRandomFaults checks that after many faults, every acknowledged run ends and nothing is left in memory.
func TestRandomFaults(t *testing.T) {
	seeds := uint64(nightly.Few(30, 100))
	for seed := range seeds {
		s := newFaultRun(t, seed)
		for range 600 {
			s.step()
		}
		s.faultsOff = true
		for range 3000 {
			for len(s.busy)+len(s.inbox) > 0 {
				s.deliver()
			}
			if b := s.p.Cut(s.now); b != nil {
				s.cut = append(s.cut, b)
			}
			s.appendOldest()
			s.now = s.now.Add(50 * time.Millisecond)
			s.p.Refill(s.now)
			s.p.Tick(s.now)
		}
		if st := s.p.Stats(); st.Loaded != 0 || st.Live != 0 || st.Queued != 0 || st.Behind != 0 {
			t.Fatalf("seed %d: left over: %+v", seed, st)
		}
		for id := range s.acknowledged {
			h, err := s.journal.History(context.Background(), id)
			if errors.Is(err, journal.ErrNotFound) {
				t.Fatalf("seed %d: run %s was acknowledged and is lost", seed, id)
			}
			if end := core.Restore(id, s.definition(h.Entries), h.Entries); !end.Phase.Closed() {
				t.Fatalf("seed %d: run %s (%s) hangs: %s, wake %s", seed, id, end.Workflow, end.Phase, end.Wake())
			}
			s.checkAttempts(id, int(seed))
		}
	}
}
