package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// workers are a node's workers. They know what is really executed, which is more than the engine is told.
type workers struct {
	n    *node
	dead bool
	jobs map[core.Token]*job
	busy map[string]int      // by task type: handed over and not reported as over
	owes map[core.Token]bool // attempts that are not here, which a report is on its way to say
}

// job is an attempt in a worker's hands, from its dispatch until the engine has heard that it is over.
type job struct {
	w       *workers
	task    core.Task
	begun   bool // its function was there
	over    bool // it does not execute any more
	revoked bool
	silent  bool         // it will not report by itself
	left    bool         // it was abandoned: it may go on for a while
	search  *body.Search // for its function; nil: it needs none
	suspect bool         // its step was, when it was dispatched
}

func newWorkers(n *node) *workers {
	return &workers{n: n, jobs: map[core.Token]*job{}, busy: map[string]int{}, owes: map[core.Token]bool{}}
}

// Slots implements engine.Workers.
func (w *workers) Slots(_, taskType string) int { return w.n.u.mood.slots[taskType] }

// Dispatch implements engine.Workers: the attempt begins.
func (w *workers) Dispatch(t core.Task) {
	u := w.n.u
	if w.dead {
		return
	}
	u.say("%s dispatches %s", w.n.name, tokenText(t.Token))
	u.book.dispatched(w.n, t)
	at := place{t.Token.Run, t.Token.Step}
	if other := u.executing[at]; other != nil && !other.left {
		u.violate(OneAttempt, t.Token.Run, "attempt %s begins while a worker still executes attempt %d", tokenText(t.Token), other.task.Token.Attempt)
	}
	if w.jobs[t.Token] != nil {
		u.violate(OneAttempt, t.Token.Run, "attempt %s is dispatched twice", tokenText(t.Token))
	}
	if w.busy[t.Type]++; u.mood.slots[t.Type] >= 0 && w.busy[t.Type] > u.mood.slots[t.Type] {
		u.violate(Slots, t.Token.Run, "attempt %s is the %dth of %d for %q", tokenText(t.Token), w.busy[t.Type], u.mood.slots[t.Type], t.Type)
	}
	j := &job{w: w, task: t, suspect: u.book.suspected(t.Token)}
	if j.suspect {
		w.alone(t)
	}
	w.jobs[t.Token], u.executing[at] = j, j
	if t.Type == body.TypeLocal {
		w.n.host.function(j)
	} else {
		j.begin()
	}
}

// begin plans what becomes of the work.
func (j *job) begin() {
	u := j.w.n.u
	j.begun = true
	if u.poison.is(j.task) {
		u.poison.kill(j)
		return
	}
	length := u.span(time.Millisecond, 2*time.Minute)
	if u.chance(0.3) {
		length = u.span(time.Microsecond, 10*time.Millisecond)
	}
	if !u.calm {
		j.signs(length)
	}
	switch {
	case u.calm:
		length = u.between(0, 20*time.Millisecond) // shorter than every limit
	case u.chance(u.mood.hang):
		j.silent = true // it hangs, or works and nobody ever hears of it
		if u.chance(0.5) {
			return
		}
		u.after(length, "work ends in silence", func() { j.end() })
		return
	}
	u.after(length, "work ends", func() { j.finish() })
}

// together has other attempts of a run end at about the time when one has.
func (w *workers) together(run core.RunID) {
	for _, tok := range w.tokens() {
		if j := w.jobs[tok]; tok.Run == run && j.search != nil && j.begun && !j.silent && w.n.u.chance(0.7) {
			w.n.u.after(w.n.u.between(0, body.AnswerTime), "work ends beside other work", j.finish)
		}
	}
}

// signs plans heartbeats and output.
func (j *job) signs(length time.Duration) {
	u := j.w.n.u
	for range u.IntN(4) {
		at, output := u.between(0, length), u.chance(0.5)
		u.after(at, "a sign of life", func() {
			if j.over || j.w.dead {
				return
			}
			in := core.Beat{Step: j.task.Token.Step, Attempt: j.task.Token.Attempt, Output: output}
			if !output && u.chance(0.5) {
				in.Details = fmt.Appendf(nil, `{"at":%d}`, at.Milliseconds())
			}
			if u.chance(0.5) {
				in.At = u.clock()
			}
			j.tell(in)
		})
	}
}

// end ends the execution.
func (j *job) end() {
	u := j.w.n.u
	at := place{j.task.Token.Run, j.task.Token.Step}
	j.over = true
	if s := j.search; s != nil {
		j.search = nil
		s.End()
	}
	if u.executing[at] == j {
		delete(u.executing, at)
	}
}

// finish ends the work and reports how.
func (j *job) finish() {
	if j.over || j.w.dead || j.revoked {
		return
	}
	u := j.w.n.u
	j.end()
	in := core.TaskEnded{Step: j.task.Token.Step, Attempt: j.task.Token.Attempt}
	bad := u.mood.bad
	if u.calm {
		bad = 0.02
	}
	if u.chance(bad) {
		in.Failure = j.failure()
	} else {
		in.Output = fmt.Appendf(nil, `{"attempt":%d}`, in.Attempt)
	}
	if u.chance(0.1) {
		in.Details = []byte(`{"last":true}`)
	}
	j.tell(in)
	if u.chance(u.mood.forget) { // a worker that was not sure to be heard says it again
		u.after(u.span(time.Millisecond, 5*time.Minute), "a repeated report", func() { j.tell(in) })
	}
}

// waits reports whether the attempt waits for its function.
func (j *job) waits() bool { return !j.begun && !j.over && !j.revoked && j.search != nil }

// giveBack ends an attempt whose function is not there: its work has not begun.
func (j *job) giveBack() {
	j.end()
	j.tell(core.TaskEnded{Step: j.task.Token.Step, Attempt: j.task.Token.Attempt, Failure: &policy.Failure{
		Kind: policy.KindLost, Type: core.TypeNotBegun, Message: "the body has not come to the step yet",
	}})
}

func (j *job) failure() *policy.Failure {
	u := j.w.n.u
	f := &policy.Failure{Kind: policy.KindError, Message: "simulated"}
	switch u.IntN(10) {
	case 0, 1:
		f.Kind = policy.KindFailed
	case 2:
		f.Kind = policy.KindLost
	case 3:
		f.Kind = policy.KindTimeout
	case 4:
		f.Type, f.NonRetryable = "Broken", u.chance(0.5)
	case 5:
		f.Type = "Fatal"
	case 6:
		f.Type, f.Code = "Transient", 503
		wish := u.span(time.Millisecond, 10*time.Minute)
		f.RetryAfter = &wish
	}
	return f
}

// tell reports after a while; a process that is gone says nothing.
func (j *job) tell(in core.Input) {
	u := j.w.n.u
	lag := u.between(0, u.mood.lag)
	if u.calm {
		lag = 0
	}
	if _, over := in.(core.TaskEnded); over && !u.calm && u.chance(u.mood.forget) {
		lag += u.span(time.Second, time.Minute) // the first one was lost on its way
	}
	run := j.task.Token.Run
	if lag == 0 && !u.chance(0.3) {
		lag = time.Microsecond
	}
	u.after(lag, "a report arrives", func() { j.w.n.report(run, in) })
}

// Revoke implements engine.Workers: the work is told to stop.
func (w *workers) Revoke(tok core.Token, _ policy.Kind) {
	u := w.n.u
	if w.dead {
		return
	}
	u.say("%s revokes %s", w.n.name, tokenText(tok))
	j := w.jobs[tok]
	if j == nil {
		// It is not here, or not any more.
		w.owes[tok] = true
		u.after(0, "nothing to stop", func() {
			w.n.report(tok.Run, core.TaskStopped{Step: tok.Step, Attempt: tok.Attempt})
		})
		return
	}
	if j.revoked {
		return
	}
	j.revoked = true
	grace := u.between(0, 10*time.Millisecond)
	abandoned := false
	if u.chance(u.mood.stubborn) {
		grace = u.between(0, 10*time.Second)
		abandoned = !j.over && u.chance(0.3)
	}
	u.after(grace, "work has stopped", func() { j.stopped(abandoned) })
}

func (j *job) stopped(abandoned bool) {
	if j.w.dead {
		return
	}
	u := j.w.n.u
	if abandoned && !j.over {
		j.left = true
		u.after(u.span(time.Second, time.Hour), "abandoned work ends", j.end)
	} else {
		j.end()
	}
	if u.chance(u.mood.forget) { // its end crossed the order to stop
		j.tell(core.TaskEnded{Step: j.task.Token.Step, Attempt: j.task.Token.Attempt, Output: []byte(`"late"`)})
	}
	in := core.TaskStopped{Step: j.task.Token.Step, Attempt: j.task.Token.Attempt, Abandoned: abandoned}
	j.tell(in)
	if u.chance(u.mood.forget) {
		u.after(u.span(time.Millisecond, time.Minute), "a repeated report", func() { j.tell(in) })
	}
}

// told forgets an attempt whose end the engine now hears of.
func (w *workers) told(run core.RunID, in core.Input) {
	tok := core.Token{Run: run}
	switch in := in.(type) {
	case core.TaskEnded:
		tok.Step, tok.Attempt = in.Step, in.Attempt
	case core.TaskStopped:
		tok.Step, tok.Attempt = in.Step, in.Attempt
	default:
		return
	}
	j := w.jobs[tok]
	if _, stopped := in.(core.TaskStopped); stopped {
		delete(w.owes, tok)
	} else if j != nil && j.revoked {
		w.owes[tok] = true // that its work has stopped is still to be said
	}
	if j != nil {
		delete(w.jobs, tok)
		w.busy[j.task.Type]--
	}
}

// kill ends the workers with their process.
func (w *workers) kill() {
	w.dead = true
	for _, tok := range w.tokens() {
		w.jobs[tok].end()
	}
	clear(w.jobs)
}

// behave has what hangs come to an end.
func (w *workers) behave() {
	u := w.n.u
	for _, tok := range w.tokens() {
		j := w.jobs[tok]
		if !j.silent || j.revoked {
			continue
		}
		j.silent = false
		u.after(u.between(0, time.Minute), "what hung ends", func() {
			j.over = false
			j.finish()
		})
	}
}

// tokens lists the attempts in the workers' hands, always in the same order.
func (w *workers) tokens() []core.Token {
	out := make([]core.Token, 0, len(w.jobs))
	for tok := range w.jobs {
		out = append(out, tok)
	}
	slices.SortFunc(out, compareTokens)
	return out
}
