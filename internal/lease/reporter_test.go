package lease

import (
	"context"
	"log/slog"
	"testing"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
)

// twoTerms returns the terms of a holder with two nodes. The run is with the first one, and an attempt that the second
// one made is at work.
func twoTerms(t *testing.T) (h *Holder, has, made *term) {
	t.Helper()
	host := body.NewHost(t.Context(), body.Config{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(host.Close)
	h = NewHolder(HolderConfig{Program: Program{Host: host, Log: slog.New(slog.DiscardHandler)}})
	has, made = h.newTerm(t.Context(), "has", 1), h.newTerm(t.Context(), "made", 1)
	for _, of := range []*term{has, made} {
		h.begin(of)
		t.Cleanup(func() {
			if err := of.pool.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	has.leases[run1] = &held{term: has, number: 1, over: make(chan struct{})}
	made.live[core.Token{Run: run1, Attempt: 1}] = true
	made.tasks[run1] = 1
	h.bind(run1, has)
	return h, has, made
}

// told checks what a term has to tell its node.
func (t *term) told(test *testing.T, want ...upKind) {
	test.Helper()
	kinds := []upKind{}
	for _, o := range t.out {
		kinds = append(kinds, o.Kind)
	}
	if len(kinds) != len(want) {
		test.Fatalf("node %q is told %v, not %v", t.node, kinds, want)
	}
	for i, kind := range kinds {
		if kind != want[i] {
			test.Errorf("node %q is told %v, not %v", t.node, kinds, want)
		}
	}
}

// TestReportsGoToTheNodeOfTheAttempt checks that the node that made an attempt hears of it, although another one has
// the run.
func TestReportsGoToTheNodeOfTheAttempt(t *testing.T) {
	h, has, made := twoTerms(t)
	r := reporter{h.cfg.Host, made}
	r.Confirm(run1, core.Beat{Attempt: 1}, func(bool) { t.Error("nobody has answered") })
	r.Report(run1, core.Beat{Attempt: 1})
	r.Report(run1, core.TaskEnded{Attempt: 1})
	has.told(t)
	made.told(t, upConfirm, upReport, upReport)
	if len(made.live) != 0 || made.has(run1) {
		t.Error("the attempt has not ended")
	}
}

// TestDecisionsOnTheEndOfAnotherNodesAttempt checks a body that has taken the end of another node's attempt. That node
// is told of the end. The decisions go, with the end, to the node that has the run, which therefore refuses them.
func TestDecisionsOnTheEndOfAnotherNodesAttempt(t *testing.T) {
	h, has, made := twoTerms(t)
	h.Do(run1, nil, []core.Input{core.TaskEnded{Attempt: 1}, core.Commands{}}, nil)
	has.told(t, upDecide)
	made.told(t, upReport)
	if n := len(has.out[0].Inputs); n != 2 {
		t.Errorf("the decisions go with %d inputs", n)
	}
	if !made.isIdle() {
		t.Error("the attempt has not ended")
	}
}

// TestEndsWhileNoNodeHasTheRun checks that the end of an attempt reaches the node that made it if a body hands it on
// when no node has the run, and that the decisions are refused.
func TestEndsWhileNoNodeHasTheRun(t *testing.T) {
	for name, give := range map[string]func(*Holder, chan error){
		"report": func(h *Holder, done chan error) {
			h.Report(run1, core.TaskEnded{Attempt: 1})
			close(done)
		},
		"decisions": func(h *Holder, done chan error) {
			h.Do(run1, nil, []core.Input{core.TaskEnded{Attempt: 1}, core.Commands{}}, func(err error) {
				if err == nil {
					t.Error("the decisions were taken")
				}
				close(done)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, has, made := twoTerms(t)
			has.forget(run1, has.lease(run1))
			h.unbind(run1, has)
			done := make(chan error)
			give(h, done)
			<-done
			has.told(t)
			made.told(t, upReport)
			if !made.isIdle() {
				t.Error("the attempt has not ended")
			}
		})
	}
}

// TestReportsAfterATerm checks that reports after a term are void.
func TestReportsAfterATerm(t *testing.T) {
	h, has, made := twoTerms(t)
	h.unwind(made)
	r := reporter{h.cfg.Host, made}
	ended := make(chan bool)
	r.Confirm(run1, core.Beat{Attempt: 1}, func(over bool) { ended <- over })
	if !<-ended {
		t.Error("the attempt goes on")
	}
	r.Report(run1, core.TaskEnded{Attempt: 1})
	has.told(t)
	made.told(t)
}
