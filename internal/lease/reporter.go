package lease

import (
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
)

// reporter takes what the pool of a term reports. The node of the term has made the attempts, so it learns of them,
// whichever node has the run by now. What comes after the term is void.
type reporter struct {
	*body.Host
	term *term
}

// Report implements worker.Reporter. A call of a body may take the end of an attempt only if it is for the same node:
// others do not know the attempt. If the run goes to another node at this moment, that node refuses the decisions.
func (r reporter) Report(run core.RunID, in core.Input) {
	h := r.term.holder
	switch {
	case !h.counts(r.term):
	case h.current(run) == r.term && r.Ended(run, in): // it comes back through Holder.Do
	default:
		r.term.report(run, in)
	}
}

func (r reporter) Confirm(run core.RunID, in core.Input, done func(ended bool)) {
	if !r.term.holder.counts(r.term) {
		go done(true)
		return
	}
	r.term.put(outgoing{up{Kind: upConfirm, Run: run, Inputs: []core.Input{in}}, func(err error) { done(err != nil) }})
}

// report tells the node about a report on one of its attempts. The attempt counts as at work until then, so that a
// process that leaves does not report before that it is idle.
func (t *term) report(run core.RunID, in core.Input) {
	t.put(outgoing{up: up{Kind: upReport, Run: run, Inputs: []core.Input{in}}})
	t.ended(run, in)
}

// madeBy returns the term whose node has made the attempt that has ended; nil: no term that counts has it at work.
func (h *Holder) madeBy(run core.RunID, in core.Input) *term {
	tok, over := endOf(run, in)
	if !over {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.terms {
		if t.works(tok) {
			return t
		}
	}
	return nil
}

// endOf returns the attempt whose end an input is.
func endOf(run core.RunID, in core.Input) (tok core.Token, over bool) {
	tok.Run = run
	switch in := in.(type) {
	case core.TaskEnded:
		tok.Step, tok.Attempt = in.Step, in.Attempt
	case core.TaskStopped:
		tok.Step, tok.Attempt = in.Step, in.Attempt
	default:
		return tok, false
	}
	return tok, true
}

// works reports whether an attempt of this term is at work.
func (t *term) works(tok core.Token) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live[tok]
}

// ended notes the end of an attempt, if it is one of this term.
func (t *term) ended(run core.RunID, in core.Input) {
	if tok, over := endOf(run, in); over && t.forgetAttempt(tok) {
		t.holder.unbind(run, t)
	}
}

// forgetAttempt forgets an attempt. It reports whether it was at work.
func (t *term) forgetAttempt(tok core.Token) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.live[tok] {
		return false
	}
	delete(t.live, tok)
	if t.tasks[tok.Run]--; t.tasks[tok.Run] == 0 {
		delete(t.tasks, tok.Run)
	}
	wake(t.idle)
	return true
}
