package lease

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
)

// answers holds the replies to one batch of a holder, which may request them again.
type answers struct {
	all  []api.DecisionAnswer
	open atomic.Int64 // how many have not come
	done chan struct{}
}

// came notes that one has come.
func (a *answers) came() {
	if a.open.Add(-1) == 0 {
		close(a.done)
	}
}

func (k *Keeper) GiveDecisions(ctx context.Context, r api.Decisions) (api.DecisionAnswers, error) {
	ups, err := decodeUps(r.Decisions)
	if err != nil {
		return api.DecisionAnswers{}, err
	}
	k.mu.Lock()
	h, err := k.find(r.Holder)
	var a *answers
	switch {
	case err != nil:
	case h.answers != nil && r.Number == h.given:
		a = h.answers
	case r.Number == h.given+1 && (h.answers == nil || h.answers.open.Load() == 0):
		h.given = r.Number
		a = &answers{all: make([]api.DecisionAnswer, len(ups)), done: make(chan struct{})}
		a.open.Store(int64(len(ups)) + 1)
		h.answers = a
		for i := range ups {
			k.take(h, &ups[i], a, i)
		}
		a.came()
	default:
		err = &api.Error{Code: api.CodeInvalid, Op: "serve", Message: fmt.Sprintf(
			"decisions %d do not follow %d, whose answer comes first", r.Number, h.given)}
	}
	k.mu.Unlock()
	if err != nil {
		return api.DecisionAnswers{}, err
	}
	select {
	case <-a.done:
		return api.DecisionAnswers{Answers: a.all}, nil
	case <-ctx.Done():
		return api.DecisionAnswers{}, &api.Error{Code: api.CodeCancelled, Op: "serve", Err: ctx.Err()}
	}
}

// take takes one message of a holder. Its answer comes when it is durable.
func (k *Keeper) take(h *holder, u *up, a *answers, i int) {
	answer := func(err error) {
		if err != nil {
			a.all[i].Error = problemOf(err)
		}
		a.came()
	}
	l := k.leases[u.Run]
	if l != nil && (l.holder != h || l.number != u.Lease) {
		l = nil
	}
	switch u.Kind {
	case upDecide:
		k.decide(h, l, u, answer)
		return
	case upConfirm:
		k.confirm(h, u, answer)
		return
	case upReport:
		known, _ := k.reports(h, u)
		for _, in := range known {
			k.engine.Report(u.Run, in)
		}
	case upBegin:
		if l != nil && l.named[u.Step] != "" {
			l.ready[l.named[u.Step]] = true
			k.engine.Begin(u.Run, u.Step)
		}
	case upConsult:
		k.consult(h, u)
	case upEnd:
		if l != nil {
			l.body.Invalidate()
			h.leases--
			delete(k.leases, u.Run)
			if l.sent > u.Seen {
				k.engine.Consult(u.Run)
			}
		}
	case upRefuse:
		if l != nil {
			k.refuse(u)
		}
	case upProblem:
		if l != nil {
			k.problems[u.Run] = errors.New(u.Text)
		}
	case upLeave:
		k.leave(h)
	case upGone:
		k.remove(h)
	}
	answer(nil)
}

// confirm takes a report, and answers with an error if its attempt has ended.
func (k *Keeper) confirm(h *holder, u *up, answer func(error)) {
	ended := stale(u.Run, "the attempt has ended")
	in, _ := k.reports(h, u)
	if len(in) == 0 {
		answer(ended)
		return
	}
	k.engine.Confirm(u.Run, in[0], func(over bool) {
		if over {
			answer(ended)
			return
		}
		answer(nil)
	})
}

// decide takes the decisions of a body, with the ends of attempts that led to them. These are taken in any case. An end
// of an attempt that the holder does not have here is never recorded, so the decisions are refused with it. Example:
// the node that made the attempt has lost the run, and the attempt has been made again here.
func (k *Keeper) decide(h *holder, l *lease, u *up, answer func(error)) {
	inputs, unknown := k.reports(h, u)
	if l == nil || unknown > 0 {
		for _, in := range inputs {
			k.engine.Report(u.Run, in)
		}
		why := k.instead(u)
		if l != nil { // the body has acted on that end, so nothing that it decides later counts either
			why = "the body has acted on the end of an attempt that is not at work here"
			k.end(u.Run, l)
			k.engine.Consult(u.Run)
		}
		answer(stale(u.Run, why))
		return
	}
	for _, in := range u.Inputs {
		decided, ok := in.(core.Commands)
		if !ok {
			continue
		}
		inputs = append(inputs, in)
		for _, cmd := range decided.Commands {
			if s, ok := cmd.(core.Schedule); ok && s.Spec != nil && s.Spec.Type == body.TypeLocal {
				l.ready[s.Spec.Name] = true
			}
		}
	}
	delete(k.problems, u.Run)
	k.engine.Do(u.Run, l.body, inputs, func(err error) {
		answer(err)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.lookAgain(u.Run) // an update may have been answered, or something refused because the run is paused
	})
}

// reports returns the reports on attempts that the holder has, and counts the reports on others.
func (k *Keeper) reports(h *holder, u *up) (out []core.Input, unknown int) {
	for _, in := range u.Inputs {
		tok, over := core.Token{Run: u.Run}, true
		switch report := in.(type) {
		case core.TaskEnded:
			tok.Step, tok.Attempt = report.Step, report.Attempt
		case core.TaskStopped:
			tok.Step, tok.Attempt = report.Step, report.Attempt
		case core.Beat:
			tok.Step, tok.Attempt, over = report.Step, report.Attempt, false
			report.At = 0 // its clock is not the engine's
			in = report
		default:
			continue
		}
		if t := k.tasks[tok]; t == nil || t.holder != h {
			unknown++
			continue
		}
		if over {
			k.free(k.tasks[tok].slot)
			delete(k.tasks, tok)
		}
		out = append(out, in)
	}
	return out, unknown
}

// consult calls a body for a holder, or sends all news again to a holder that has called it.
func (k *Keeper) consult(h *holder, u *up) {
	switch l := k.leases[u.Run]; {
	case h.leaving:
		h.tell(down{Kind: downHeld, Run: u.Run})
	case l == nil:
		k.wanting[u.Run] = h
		k.engine.Consult(u.Run)
	case l.holder != h:
		h.tell(down{Kind: downHeld, Run: u.Run})
	case l.number == u.Lease:
		k.engine.Consult(u.Run)
	default: // a lease is on its way to it
	}
}

// instead returns what has happened to a run whose lease is not the given one.
func (k *Keeper) instead(u *up) string {
	if l := k.leases[u.Run]; l != nil {
		return fmt.Sprintf("the lease %d of the run has ended, and lease %d, of %q, has taken its place", u.Lease,
			l.number, l.holder.name)
	}
	return fmt.Sprintf("the lease %d of the run has ended", u.Lease)
}

func stale(run core.RunID, text string) error {
	return &api.Error{Code: api.CodeStale, Op: "serve", ID: run.String(), Message: text}
}

func problemOf(err error) *api.Error {
	var own *api.Error
	if errors.As(err, &own) {
		return &api.Error{Code: own.Code, Op: own.Op, ID: own.ID, Message: own.Reason(), Hint: own.Hint}
	}
	return &api.Error{Code: api.CodeOf(err), Message: err.Error()}
}
