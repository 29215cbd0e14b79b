package lease

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// noted is an engine that notes what it is told.
type noted struct {
	done      []*engine.Body
	consulted []core.RunID
	reports   []core.Input
	ended     bool // the attempt that is to be confirmed has ended
}

func (n *noted) Do(_ core.RunID, b *engine.Body, _ []core.Input, done func(error)) {
	n.done = append(n.done, b)
	go done(nil)
}

func (n *noted) Consult(run core.RunID)             { n.consulted = append(n.consulted, run) }
func (n *noted) Begin(core.RunID, core.StepID)      {}
func (n *noted) Rematch()                           {}
func (n *noted) Report(_ core.RunID, in core.Input) { n.reports = append(n.reports, in) }

func (n *noted) Confirm(_ core.RunID, in core.Input, done func(bool)) {
	n.reports = append(n.reports, in)
	done(n.ended)
}

// keep returns a keeper with a holder.
func keep(t *testing.T) (*Keeper, *noted) {
	t.Helper()
	e := &noted{}
	k := NewKeeper(KeeperConfig{Now: func() core.Time { return 1 }})
	k.Attach(e)
	enter(t, k, "a-holder-of-leases")
	return k, e
}

func joinOf(t *testing.T, holder string, names ...string) api.BodiesJoin {
	t.Helper()
	var all []Served
	for _, name := range names {
		all = append(all, Served{Definition: journal.Definition{Kind: journal.KindGo, Name: name}})
	}
	options, err := encodeWorkflows(all)
	if err != nil {
		t.Fatal(err)
	}
	return api.BodiesJoin{Holder: holder, Name: holder, Slots: 1, Workflows: names, Options: options}
}

func enter(t *testing.T, k *Keeper, holder string) {
	t.Helper()
	if err := k.JoinBodies(t.Context(), joinOf(t, holder, "w")); err != nil {
		t.Fatal(err)
	}
}

var run1 = core.RunID{1}

// whole returns everything of a run with a step, which has ended at an instant; 0: it has not.
func whole(at core.Time) engine.News {
	s := engine.Step{ID: 0, Spec: &core.StepSpec{Name: "s", Type: body.TypeLocal}, Phase: core.StepScheduled}
	if at != 0 {
		s.Phase, s.EndedAt = core.StepSucceeded, at
	}
	return engine.News{Run: run1, Whole: true, Head: &engine.Head{Workflow: "w"}, Steps: []engine.Step{s}}
}

// news takes what a holder is told.
func news(t *testing.T, k *Keeper, holder string, seen uint64) (all []down, number uint64) {
	t.Helper()
	n, err := k.TakeNews(t.Context(), api.NewsRequest{Holder: holder, Seen: seen, Wait: api.Duration(time.Second)})
	if err == nil && len(n.News) > 0 {
		all, err = decodeDowns(n.News)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all, n.Number
}

// give gives decisions.
func give(t *testing.T, k *Keeper, holder string, number uint64, ups ...up) ([]api.DecisionAnswer, error) {
	t.Helper()
	b, _, err := encodeUps(ups)
	if err != nil {
		t.Fatal(err)
	}
	out, err := k.GiveDecisions(t.Context(), api.Decisions{Holder: holder, Number: number, Decisions: b})
	return out.Answers, err
}

const first, second = "a-holder-of-leases", "another-holder-of-leases"

// TestStaleLease checks that decisions count with the run's lease alone, and once.
func TestStaleLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, e := keep(t)
		enter(t, k, second)
		k.Consult(whole(0))
		told, seen := news(t, k, first, 0)
		if len(told) != 1 || told[0].Kind != downBegin || told[0].Lease != 1 {
			t.Fatalf("%+v", told)
		}
		if again, _ := news(t, k, first, 0); len(again) != 1 || again[0].Lease != 1 {
			t.Errorf("the answer was lost, and comes as %+v", again)
		}
		decide := up{Kind: upDecide, Run: run1, Lease: 1, Inputs: []core.Input{core.Commands{Waits: true}}}
		for range 2 {
			if a, err := give(t, k, first, 1, decide); err != nil || len(a) != 1 || a[0].Error != nil {
				t.Errorf("%+v, %v", a, err)
			}
		}
		if len(e.done) != 1 {
			t.Errorf("decisions that came twice were taken %d times", len(e.done))
		}
		if _, err := give(t, k, first, 3, decide); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("decisions 3 after 1: %v", err)
		}
		if a, err := give(t, k, second, 1, decide); err != nil || a[0].Error == nil ||
			a[0].Error.Code != api.CodeStale {
			t.Errorf("with the lease of another: %+v, %v", a, err)
		}

		k.Consult(whole(5)) // the step ends
		k.Consult(whole(7)) // it was made again: what was decided upon the first end must not be taken
		told, _ = news(t, k, first, seen)
		if len(told) != 3 || told[0].Kind != downNews || told[1].Kind != downEnd || told[2].Lease != 2 {
			t.Errorf("%+v", told)
		}
		a, err := give(t, k, first, 2, decide)
		if err != nil || a[0].Error == nil || !strings.Contains(a[0].Error.Message, "lease 2") {
			t.Errorf("with a lease that has ended: %+v, %v", a, err)
		}
		if len(e.done) != 1 {
			t.Error("a stale decision was taken")
		}
		k.Drain()
	})
}

// TestDecisionsOnAnUnknownEnd checks that decisions that rest on the end of an attempt of which the server does not
// know are refused, and with them all later ones of that call of the body. Ends that it knows count.
func TestDecisionsOnAnUnknownEnd(t *testing.T) {
	k, e := keep(t)
	defer k.Drain()
	k.Consult(whole(0))
	k.Dispatch(core.Task{Token: core.Token{Run: run1, Attempt: 2}, Type: body.TypeLocal, Workflow: "w"})
	decide := func(inputs ...core.Input) up {
		return up{Kind: upDecide, Run: run1, Lease: 1, Inputs: append(inputs, core.Commands{
			Commands: []core.Command{core.Schedule{Spec: &core.StepSpec{Name: "next", Type: body.TypeLocal}}},
		})}
	}
	answers, err := give(t, k, first, 1, decide(core.TaskEnded{Attempt: 1}, core.TaskEnded{Attempt: 2}), decide())
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if a.Error == nil || a.Error.Code != api.CodeStale {
			t.Errorf("decisions %d: %+v", i, a)
		}
	}
	if len(e.done) != 0 {
		t.Errorf("%d decisions were taken", len(e.done))
	}
	if len(e.reports) != 1 || e.reports[0].(core.TaskEnded).Attempt != 2 {
		t.Errorf("reported: %+v", e.reports)
	}
	if len(e.consulted) != 1 {
		t.Errorf("the body is called again %d times", len(e.consulted))
	}
	k.Consult(whole(5))
	if told, _ := news(t, k, first, 0); len(told) != 4 || told[2].Kind != downEnd || told[3].Lease != 2 {
		t.Errorf("%+v", told)
	}
	if answers, err = give(t, k, first, 2, up{
		Kind: upDecide, Run: run1, Lease: 2, Inputs: []core.Input{core.Commands{Waits: true}},
	}); err != nil || answers[0].Error != nil || len(e.done) != 1 {
		t.Errorf("the next call of the body: %+v, %v", answers, err)
	}
}

// TestSilence checks that a holder that is silent loses its runs and its attempts, and only what it has is its to
// report on.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, e := keep(t)
		k.Consult(whole(0))
		task := core.Task{Token: core.Token{Run: run1, Attempt: 1}, Type: body.TypeLocal, Workflow: "w"}
		k.Dispatch(task)
		enter(t, k, second)
		end := up{Kind: upReport, Run: run1, Inputs: []core.Input{core.TaskEnded{Attempt: 1}}}
		if _, err := give(t, k, second, 1, end); err != nil || len(e.reports) != 0 {
			t.Errorf("a report on an attempt of another: %v, %v", e.reports, err)
		}
		<-time.After(Silence / 2)
		news(t, k, second, 0)
		<-time.After(Silence/2 + time.Second)
		synctest.Wait()
		if len(e.consulted) != 1 || len(e.reports) != 1 {
			t.Fatalf("after the silence: %v, %v", e.consulted, e.reports)
		}
		if lost := e.reports[0].(core.TaskEnded); lost.Failure == nil || lost.Failure.Kind != policy.KindLost {
			t.Errorf("%+v", lost)
		}
		_, err := k.TakeNews(t.Context(), api.NewsRequest{Holder: first})
		if api.CodeOf(err) != api.CodeStale {
			t.Errorf("the silent one comes back: %v", err)
		}
		k.Consult(whole(0))
		if told, _ := news(t, k, second, 0); len(told) != 1 || told[0].Lease != 2 {
			t.Errorf("the other is told %+v", told)
		}
		ctx, leave := context.WithCancel(t.Context())
		leave() // its connection has broken while it waits
		_, _ = k.TakeNews(ctx, api.NewsRequest{Holder: second, Seen: 1, Wait: api.Duration(time.Minute)})
		<-time.After(broken + time.Millisecond)
		synctest.Wait()
		if len(e.consulted) != 2 {
			t.Errorf("after a connection broke: %v", e.consulted)
		}
		k.Drain()
	})
}

// TestJoinRefused checks that a process whose account of itself is wrong may not join.
func TestJoinRefused(t *testing.T) {
	k, _ := keep(t)
	defer k.Drain()
	one := joinOf(t, "", "w").Options
	for want, r := range map[string]api.BodiesJoin{
		"cannot be read":        {Holder: second, Workflows: []string{"w"}, Options: []byte("nonsense")},
		"2 workflows are named": {Holder: second, Workflows: []string{"w", "v"}, Options: one},
		`is named "v"`:          {Holder: second, Workflows: []string{"v"}, Options: one},
	} {
		err := k.JoinBodies(t.Context(), r)
		if api.CodeOf(err) != api.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s: %v", want, err)
		}
	}
}
