package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// A contest: several callers start runs with the same workflow id, send events to them and operate them, all at once
// and through any node. What they are answered, and in the end the histories of these runs, must be as if one request
// had been carried out after the other, each at some moment between its call and its answer.

const contestFlow = `pawl: 1
name: contest
timeout: 10h
steps:
  - name: never
    wait: {event: never}
`

const (
	contestRead = "history" // the kind of a read; others are "start", "event" and the operations
	unknownRun  = "?"       // the run of a start whose answer nobody received
)

// contestCall is one request. Its id is the reason that the history shows; that of an event begins with the event's
// name.
type contestCall struct {
	kind, run, id string
	useExisting   bool
}

// contestAnswer is what was answered.
type contestAnswer struct {
	code     api.Code
	unknown  bool // nobody knows whether the request was carried out
	run      string
	existing bool
	history  string // ids, each after a space
}

// contestState is what the requests so far have made. What happened to a run is a list of ids, each after a space.
type contestState struct {
	open   string // run; empty: none
	paused bool
	taken  string // ids of the calls that the open run has taken
	ended  string // "\n", run and what happened to it, for each that has ended
}

var contestModel = porcupine.Model{
	Init: func() any { return contestState{} },
	Step: func(state, in, out any) (bool, any) {
		s := state.(contestState)
		ok := s.step(in.(contestCall), out.(contestAnswer))
		return ok, s
	},
}

// step carries a call out, and reports whether it can have got that answer.
func (s *contestState) step(in contestCall, out contestAnswer) bool {
	if in.kind == "start" {
		return s.start(in, out)
	}
	if s.open == unknownRun && !s.hasEnded(in.run) {
		s.open = in.run
	}
	code, taken := api.Code(""), false
	switch {
	case in.kind == contestRead:
		return out.unknown || out.history == s.of(in.run)
	case in.kind == "event" && strings.Contains(s.of(in.run), " "+eventOf(in.id)+"/"): // a repeated one
	case s.open != in.run:
		code = api.CodeRunClosed
	case in.kind == api.OpPause && s.paused, in.kind == api.OpResume && !s.paused:
		code = api.CodeConflict
	default:
		taken = true
	}
	if !out.unknown && out.code != code {
		return false
	}
	if taken {
		s.take(in)
	}
	return true
}

func (s *contestState) take(in contestCall) {
	s.taken += " " + in.id
	switch in.kind {
	case api.OpPause, api.OpResume:
		s.paused = in.kind == api.OpPause
	case api.OpTerminate:
		*s = contestState{ended: s.ended + "\n" + s.open + s.taken}
	}
}

func (s *contestState) start(in contestCall, out contestAnswer) bool {
	fresh := contestState{open: out.run, ended: s.ended}
	switch {
	case out.unknown && s.open == "":
		fresh.open = unknownRun
		*s = fresh
	case out.unknown:
	case out.code == api.CodeConflict:
		return s.open != "" && !in.useExisting
	case out.code != "":
		return false
	case out.existing && s.open == unknownRun:
		s.open = out.run
		return in.useExisting && !s.hasEnded(out.run)
	case out.existing:
		return in.useExisting && s.open == out.run
	default:
		ok := s.open == "" && !s.hasEnded(out.run)
		*s = fresh
		return ok
	}
	return true
}

func (s *contestState) hasEnded(run string) bool { return strings.Contains(s.ended, "\n"+run+" ") }

// of returns what happened to a run.
func (s *contestState) of(run string) string {
	if s.open == run {
		return s.taken
	}
	_, rest, _ := strings.Cut(s.ended, "\n"+run)
	taken, _, _ := strings.Cut(rest, "\n")
	return taken
}

func eventOf(id string) string { name, _, _ := strings.Cut(id, "/"); return name }

// contests counts what the contests of a test did. In those that are undecided too many calls may have been carried out
// or not: nobody can try all orders of them.
type contests struct{ held, calls, unknown, undecided int }

// contest is one of them.
type contest struct {
	*testing.T
	name  string
	nodes *rotating
	began time.Time

	mu   sync.Mutex
	log  []porcupine.Operation
	runs map[string]bool
}

// contestsEach is how many contests there are in a round at most: they take long while there is a fault.
const contestsEach = 15

// compete holds contests until the function that it returns is called.
func (b *faultsBed) compete() (stop func()) {
	seed, first := b.dice.Uint64(), b.contests.held
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := first; n < first+contestsEach && !b.Failed(); n++ {
			select {
			case <-over:
				return
			default:
			}
			c := &contest{
				T: b.T, name: fmt.Sprint("contest-", n), nodes: &b.at, began: time.Now(), runs: map[string]bool{},
			}
			if !c.hold(rand.New(rand.NewPCG(seed, uint64(n)))) {
				b.contests.undecided++
			}
			b.contests.held++
			b.contests.calls += len(c.log)
			for _, op := range c.log {
				if op.Output.(contestAnswer).unknown {
					b.contests.unknown++
				}
			}
		}
	}()
	return func() { close(over); <-done }
}

// judging is how long the orders of a contest's calls are tried.
const judging = 10 * time.Second

// hold holds the contest. It reports whether it could be judged.
func (c *contest) hold(dice *rand.Rand) (decided bool) {
	var all sync.WaitGroup
	for caller := range 3 {
		own := rand.New(rand.NewPCG(dice.Uint64(), uint64(caller)))
		all.Go(func() { c.call(caller, own) })
	}
	all.Wait()
	for run := range c.runs {
		c.readHistory(run)
	}
	result := porcupine.CheckOperationsTimeout(contestModel, c.log, judging)
	if result == porcupine.Illegal {
		var text strings.Builder
		for _, op := range c.log {
			fmt.Fprintf(&text, "%d: %9d to %19d: %+v %+v\n", op.ClientId, op.Call, op.Return, op.Input, op.Output)
		}
		c.Errorf("%s: no order of the requests explains the answers:\n%s", c.name, text.String())
	}
	return result != porcupine.Unknown
}

// call sends requests, one after the other.
func (c *contest) call(caller int, dice *rand.Rand) {
	kinds := []string{"start", "event", "event", api.OpPause, api.OpResume, api.OpExtend, api.OpTerminate}
	run := ""
	for i := range 8 {
		in := contestCall{kind: "start", run: run, id: fmt.Sprintf("%d.%d", caller, i), useExisting: dice.IntN(2) == 0}
		if run != "" {
			in.kind = kinds[dice.IntN(len(kinds))]
		}
		if in.kind == "event" { // others send the same one
			in.id = fmt.Sprintf("e%d/%s", dice.IntN(4), in.id)
		}
		out, known := c.ask(caller, in)
		if known && out.run != "" {
			run = out.run
		}
	}
}

// ask sends a request through the next node, and notes it unless it surely did nothing.
func (c *contest) ask(caller int, in contestCall) (out contestAnswer, known bool) {
	ctx, cancel := context.WithTimeout(c.Context(), 3*time.Second)
	defer cancel()
	called := time.Since(c.began)
	err := c.carryOut(ctx, in, &out)
	returned := int64(time.Since(c.began))
	out.code = api.CodeOf(err)
	switch out.code {
	case api.CodeHeld, api.CodeClosed, api.CodeStalled: // nothing was saved
		return out, false
	case api.CodeUncertain, api.CodeCancelled, api.CodeFenced:
		out.unknown, returned = true, math.MaxInt64
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, porcupine.Operation{
		ClientId: caller, Input: in, Call: int64(called), Output: out, Return: returned,
	})
	if out.run != "" {
		c.runs[out.run] = true
	}
	return out, !out.unknown
}

func (c *contest) carryOut(ctx context.Context, in contestCall, out *contestAnswer) error {
	node := c.nodes.client()
	switch in.kind {
	case "start":
		started, err := node.StartNamed(ctx, "contest", api.StartRequest{
			WorkflowID: c.name, UseExisting: in.useExisting,
		})
		out.run, out.existing = started.Run, started.Existing
		return err
	case "event":
		name := eventOf(in.id)
		return node.Send(ctx, in.run, api.SendRequest{Name: name, ID: name, Reason: in.id, Keep: true})
	case contestRead:
		history, err := historyOf(ctx, node, in.run)
		out.history = history
		return err
	}
	op := api.Operation{Operation: in.kind, Reason: in.id}
	if in.kind == api.OpExtend {
		op.To = api.At(c.began.Add(24 * time.Hour))
	}
	return node.Operate(ctx, in.run, op)
}

// readHistory makes the last request about a run.
func (c *contest) readHistory(run string) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if out, known := c.ask(3, contestCall{kind: contestRead, run: run}); known && out.code == "" {
			return
		}
	}
	c.Errorf("the history of run %s cannot be read", run)
}

// historyOf returns what happened to a run, as a [contestState] has it.
func historyOf(ctx context.Context, node *httpapi.Client, run string) (ids string, err error) {
	text, err := node.History(ctx, run)
	if err != nil {
		return "", err
	}
	var history struct {
		Entries []struct{ Events []api.Event }
	}
	if err := json.Unmarshal(text, &history); err != nil {
		return "", err
	}
	for _, entry := range history.Entries {
		for _, e := range entry.Events {
			if e.Why != "" {
				ids += " " + e.Why
			}
		}
	}
	return ids, nil
}

// TestContestModel checks that the model rejects impossible histories.
func TestContestModel(t *testing.T) {
	t.Parallel()
	started := func(run string) contestAnswer { return contestAnswer{run: run} }
	start, again := contestCall{kind: "start"}, contestCall{kind: "start", useExisting: true}
	event := contestCall{kind: "event", run: "a", id: "e/1"}
	repeated := contestCall{kind: "event", run: "a", id: "e/2"}
	pause := contestCall{kind: api.OpPause, run: "a", id: "p"}
	end := contestCall{kind: api.OpTerminate, run: "a", id: "t"}
	read := contestCall{kind: contestRead, run: "a"}
	lost := contestAnswer{unknown: true}
	done, conflict := contestAnswer{}, contestAnswer{code: api.CodeConflict}
	found := contestAnswer{run: "a", existing: true}
	history := func(ids string) contestAnswer { return contestAnswer{history: ids} }
	type step struct {
		in  contestCall
		out contestAnswer
	}
	for name, c := range map[string]struct {
		ok    bool
		steps []step
	}{
		"one open run":             {true, []step{{start, started("a")}, {start, conflict}}},
		"two open runs":            {false, []step{{start, started("a")}, {start, started("b")}}},
		"one after the other":      {true, []step{{start, started("a")}, {end, done}, {start, started("b")}}},
		"an answer got lost":       {true, []step{{start, lost}, {again, found}, {end, lost}}},
		"a run that is gone":       {false, []step{{start, started("a")}, {end, done}, {again, found}}},
		"an event of a closed run": {false, []step{{start, started("a")}, {end, done}, {event, done}}},
		"an event is there once": {
			true, []step{{start, started("a")}, {event, done}, {repeated, done}, {read, history(" e/1")}},
		},
		"an event is there twice": {
			false, []step{{start, started("a")}, {event, done}, {repeated, done}, {read, history(" e/1 e/2")}},
		},
		"an event is missing": {false, []step{{start, started("a")}, {event, done}, {read, history("")}}},
		"another order": {
			false, []step{{start, started("a")}, {event, done}, {pause, done}, {read, history(" p e/1")}},
		},
		"a read that nobody answered": {true, []step{{start, started("a")}, {event, done}, {read, lost}}},
		"paused twice":                {false, []step{{start, started("a")}, {pause, done}, {pause, done}}},
	} {
		var log []porcupine.Operation
		for i, s := range c.steps {
			op := porcupine.Operation{Input: s.in, Call: int64(2 * i), Output: s.out, Return: int64(2*i + 1)}
			if s.out.unknown {
				op.Return = math.MaxInt64
			}
			log = append(log, op)
		}
		if got := porcupine.CheckOperations(contestModel, log); got != c.ok {
			t.Errorf("%s: %v", name, got)
		}
	}
}
