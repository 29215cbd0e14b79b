package virtual

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// act is what an attempt does at some time after its start: it gives a sign of life, or it ends.
type act struct {
	after   time.Duration
	kind    string // heartbeat, details, line, complete or fail
	details int
}

// playing is an attempt that a player executes.
type playing struct {
	task    core.Task
	pulse   worker.Pulse
	started core.Time
	acts    []act
}

// player are workers that do what a script says for each attempt of each step.
type player struct {
	clock  worker.Clock
	engine *engine.Engine
	script map[string][][]act

	mu    sync.Mutex
	plays map[core.Token]*playing
}

func (*player) Slots(string, string) int { return -1 }

func (*player) Do(core.Task) (core.TaskEnded, bool) { return core.TaskEnded{}, false }

func (p *player) Dispatch(t core.Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	play := &playing{task: t, started: p.clock.Now()}
	if script := p.script[t.StepName]; t.Token.Attempt <= len(script) {
		play.acts = script[t.Token.Attempt-1]
	}
	play.pulse.Begin(t, p.clock, p.engine)
	p.plays[t.Token] = play
}

func (p *player) Revoke(tok core.Token, _ policy.Kind) {
	p.mu.Lock()
	if play := p.plays[tok]; play != nil {
		play.pulse.Mute()
	}
	delete(p.plays, tok)
	p.mu.Unlock()
	p.engine.Report(tok.Run, core.TaskStopped{Step: tok.Step, Attempt: tok.Attempt})
}

// next returns the attempt with the next act, and its instant; nil: no attempt does anything any more.
func (p *player) next() (*playing, core.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var first *playing
	for _, play := range p.plays {
		if len(play.acts) > 0 && (first == nil || play.at() < first.at()) {
			first = play
		}
	}
	if first == nil {
		return nil, 0
	}
	return first, first.at()
}

func (a *playing) at() core.Time { return a.started.Add(a.acts[0].after) }

// act lets an attempt do what is due.
func (p *player) act(play *playing) {
	p.mu.Lock()
	do := play.acts[0]
	play.acts = play.acts[1:]
	tok := play.task.Token
	if do.kind == "complete" || do.kind == "fail" {
		delete(p.plays, tok)
	}
	p.mu.Unlock()
	switch do.kind {
	case "heartbeat":
		play.pulse.Heartbeat(nil)
	case "details":
		play.pulse.Heartbeat(fmt.Append(nil, do.details))
	case "line":
		play.pulse.Output()
	default:
		end := core.TaskEnded{Step: tok.Step, Attempt: tok.Attempt, Details: play.pulse.End()}
		if do.kind == "fail" {
			end.Failure = &policy.Failure{Kind: policy.KindError, Message: "no"}
		}
		p.engine.Report(tok.Run, end)
	}
}

// scenario makes a flow with random limits and retries, and what its attempts do. No two things fall on one instant:
// which of them is first then is another question.
func scenario(seed uint64) (text string, script map[string][][]act) {
	r := rand.New(rand.NewPCG(seed, 33))
	amount := func() string { return fmt.Sprintf("%ds", 2+r.IntN(60)) }
	b := &strings.Builder{}
	b.WriteString("pawl: 1\nname: nap\ntimeout: {run: " + fmt.Sprint(60+r.IntN(600)) + "s}\nsteps:\n")
	script = map[string][][]act{}
	odd := 0
	for i := range 1 + r.IntN(2) {
		name := fmt.Sprint("s", i)
		var limits []string
		for _, limit := range []string{"heartbeat", "inactivity", "startToClose", "scheduleToClose", "deadline"} {
			if r.IntN(2) == 0 {
				limits = append(limits, limit+": "+amount())
			}
		}
		fmt.Fprintf(b, "  - {name: %s, task: {type: T}, timeout: {%s}, retry: {maxAttempts: %d, initialInterval: %s, "+
			"maxInterval: 40s, jitter: %v, on: [error, timeout]}, continueOn: [error, timeout]}\n",
			name, strings.Join(limits, ", "), 1+r.IntN(4), amount(), []float64{0, 0.5, 1}[r.IntN(3)])
		for range 4 {
			var acts []act
			for range r.IntN(12) {
				odd += 7
				acts = append(acts, act{
					after:   time.Duration(r.IntN(90))*time.Second + time.Duration(odd%1000)*time.Millisecond,
					kind:    []string{"heartbeat", "heartbeat", "details", "line", "line", "line"}[r.IntN(6)],
					details: r.IntN(3),
				})
			}
			slices.SortFunc(acts, func(a, b act) int { return cmp.Compare(a.after, b.after) })
			if end := r.IntN(4); end < 3 && len(acts) > 0 {
				acts[len(acts)-1].kind = []string{"complete", "fail", "fail"}[end]
			}
			script[name] = append(script[name], acts)
		}
	}
	return b.String(), script
}

// perform lets all attempts do what they do. It stops where nothing more is to come.
func (p *player) perform(until func(core.Time)) {
	until(p.clock.Now())
	for range 1000 {
		first, at := p.next()
		wake := p.engine.Stats().Next
		if first == nil && wake == 0 {
			break
		}
		if first == nil || wake != 0 && wake < at {
			until(max(wake, p.clock.Now()))
			continue
		}
		until(at)
		if again, _ := p.next(); again == first && at <= p.clock.Now() {
			p.act(first)
			until(p.clock.Now())
		}
	}
}

// play runs a scenario by the wall clock of a test's bubble, or by a clock that stands. It returns what happened but
// the signs of life, which are reported sooner or later, with the details that each attempt began with.
func play(t *testing.T, text string, script map[string][][]act, stands bool) (out []string) {
	t.Helper()
	j := memory.New()
	p := &player{script: script, plays: map[core.Token]*playing{}}
	cfg := engine.Config{Journal: j, Kinds: map[string]engine.Kind{journal.KindFlow: {Compile: compile}}}
	p.clock.Now = func() core.Time { return policy.At(time.Now()) }
	until := func(to core.Time) {
		<-time.After(to.Sub(p.clock.Now()))
		synctest.Wait()
	}
	if stands {
		clock, err := Of(t.Context(), j, policy.At(time.Now()))
		if err != nil {
			t.Fatal(err)
		}
		cfg.Now, p.clock = clock.Now, worker.Clock{Now: clock.Now, Stands: true}
		until = func(to core.Time) {
			h := &hand{clock: clock, engine: p.engine, waited: 1 << 20, saved: time.Now()}
			err := h.settle(t.Context())
			if err == nil {
				_, err = h.move(t.Context(), to, false)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	begun := p.clock.Now()
	var err error
	if p.engine, err = engine.New(cfg); err != nil {
		t.Fatal(err)
	}
	p.engine.Serve("", p)
	if err := p.engine.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	started, err := p.engine.Start(t.Context(), engine.StartRequest{Definition: journal.Definition{
		ID: flow.ID([]byte(text)), Kind: journal.KindFlow, Name: "nap", Source: []byte(text),
	}, RunID: core.NewRunID(begun, 1, 1, 7)})
	if err != nil {
		t.Fatal(err)
	}
	p.perform(until)
	entries, err := p.engine.Entries(context.Background(), started.Run, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		for _, rec := range entry.Records {
			if _, beat := rec.(core.AttemptBeat); !beat {
				out = append(out, fmt.Sprintf("%s %T", entry.At.Sub(begun), rec))
			}
		}
	}
	if err := p.engine.Close(); err != nil {
		t.Error(err)
	}
	return out
}

// TestSameAsWaiting checks that attempts that heartbeat, write lines, fail and fall silent have the same ends at the
// same instants by a clock that is moved from instant to instant as by a clock that goes by itself.
func TestSameAsWaiting(t *testing.T) {
	expired := 0
	for seed := range uint64(60) {
		text, script := scenario(seed)
		results := map[bool][]string{}
		for _, stands := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { results[stands] = play(t, text, script, stands) })
		}
		if got, want := strings.Join(results[true], "\n"), strings.Join(results[false], "\n"); got != want {
			t.Fatalf("seed %d:\n%s%+v\nmoved:\n%s\nwaited:\n%s", seed, text, script, got, want)
		}
		expired += strings.Count(strings.Join(results[true], "\n"), "AttemptEnded")
	}
	if expired < 60 {
		t.Errorf("only %d attempts ended in all", expired)
	}
}
