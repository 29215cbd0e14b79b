package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// workers are the workers of a node. They know which work really executes. The engine only knows their reports.
type workers struct {
	n           *node
	dead        bool
	tasks       map[core.Token]*workerTask
	busy        map[string]int      // how many tasks of a type were dispatched and not reported as over
	stopReports map[core.Token]bool // attempts whose report that they stopped is on its way
	// killed are the tasks that the workers had when they were killed. An engine that does not know it, see takeOver,
	// goes on counting them until a report comes that was on its way.
	killed map[core.Token]*workerTask
}

// job is an attempt that a worker has. It exists from its dispatch until the engine gets the report of its end.
type workerTask struct {
	w         *workers
	task      core.Task
	begun     bool // its function was found, and it executes
	taken     bool // the run's body has taken its end, to report it
	over      bool // it no longer executes
	revoked   bool
	adopted   bool         // a node has a remote worker's task because of a report, and did not ask for it
	silent    bool         // it does not report its end on its own
	missing   bool         // a node keeps a remote worker's task that it has not found at any worker
	abandoned bool         // the worker no longer waits for its end; it may execute for a while
	search    *body.Search // the search for its function; nil if it needs none
	group     int          // how many of a suspect's group could run at once; 0: its step was no suspect
}

func newWorkers(n *node) *workers {
	return &workers{
		n: n, tasks: map[core.Token]*workerTask{}, busy: map[string]int{}, stopReports: map[core.Token]bool{},
	}
}

func (w *workers) Slots(_, taskType string) int {
	if w.n.u.remote && taskType == remoteType {
		return 0
	}
	return w.n.u.profile.slots[taskType]
}

// Do implements slots.Workers. In some universes the tasks of one type take no time.
func (w *workers) Do(t core.Task) (core.TaskEnded, bool) {
	u := w.n.u
	if w.dead || t.Type != u.profile.instant || u.poison.is(t) {
		return core.TaskEnded{}, false
	}
	u.tracef("%s does %s on the spot", w.n.name, tokenText(t.Token))
	w.checkAlone(t)
	wt := &workerTask{w: w, task: t}
	return wt.ending(), true
}

// checkAlone checks that no other attempt of a step executes when one begins.
func (w *workers) checkAlone(t core.Task) {
	other := w.n.u.executing[stepOfRun{t.Token.Run, t.Token.Step}]
	if other != nil && !other.abandoned {
		w.n.u.violate(OneAttempt, t.Token.Run, "attempt %s begins while a worker still executes attempt %d",
			tokenText(t.Token), other.task.Token.Attempt)
	}
}

// Dispatch implements slots.Workers. The attempt begins.
func (w *workers) Dispatch(t core.Task) {
	u := w.n.u
	if w.dead {
		return
	}
	u.tracef("%s dispatches %s", w.n.name, tokenText(t.Token))
	u.checker.checkDispatch(w.n, t)
	if w.n.machine != nil && w.n == w.n.home.formerOwner {
		u.violate(OneAttempt, t.Token.Run, "attempt %s begins at %s after its lease has ended and %s has taken over",
			tokenText(t.Token), w.n.name, w.n.home.node.name)
	}
	at := stepOfRun{t.Token.Run, t.Token.Step}
	w.checkAlone(t)
	if w.tasks[t.Token] != nil {
		u.violate(OneAttempt, t.Token.Run, "attempt %s is dispatched twice", tokenText(t.Token))
	}
	w.busy[t.Type]++
	if busy, slots := w.n.process.busy(t.Type), u.profile.slots[t.Type]; t.Secret == 0 && slots >= 0 && busy > slots {
		u.violate(Slots, t.Token.Run, "attempt %s is one of %d for %d slots of type %q",
			tokenText(t.Token), busy, slots, t.Type)
	}
	wt := &workerTask{w: w, task: t, group: u.checker.groupOf(t.Token)}
	if wt.group > 0 {
		w.checkGroup(t, wt.group)
	}
	w.tasks[t.Token], u.executing[at] = wt, wt
	u.checker.together(w.n, t.Token)
	switch {
	case t.Type == body.TypeLocal:
		w.n.host.findFunction(wt)
	case t.Secret != 0:
		u.way.send(wt)
	default:
		wt.begin()
	}
}

// begin begins the work and plans how it ends.
func (wt *workerTask) begin() {
	u := wt.w.n.u
	wt.begun = true
	if u.poison.is(wt.task) && wt.task.Secret == 0 {
		u.poison.kill(wt)
		return
	}
	length := u.span(time.Millisecond, 2*time.Minute)
	if u.chance(0.3) {
		length = u.span(time.Microsecond, 10*time.Millisecond)
	}
	if !u.noFaults {
		wt.planBeats(length)
	}
	switch {
	case u.noFaults:
		length = u.between(0, 20*time.Millisecond) // shorter than every limit
	case u.chance(u.profile.hangs):
		wt.silent = true // it hangs, or it works and its reports are lost
		if u.chance(0.5) {
			return
		}
		u.after(length, "work ends without a report", func() { wt.end() })
		return
	}
	u.after(length, "work ends", func() { wt.finish() })
}

// dies reports whether the worker of an attempt has died with its process.
func (wt *workerTask) dies() bool { return wt.w.dead && wt.task.Secret == 0 }

// endTogether makes other attempts of a run end soon after one has ended.
func (w *workers) endTogether(run core.RunID) {
	for _, tok := range w.tokens() {
		if wt := w.tasks[tok]; tok.Run == run && wt.search != nil && wt.begun && !wt.silent && w.n.u.chance(0.7) {
			w.n.u.after(w.n.u.between(0, body.AnswerTime), "work ends soon after other work", wt.finish)
		}
	}
}

// planBeats plans heartbeats and output.
func (wt *workerTask) planBeats(length time.Duration) {
	u := wt.w.n.u
	for range u.IntN(4) {
		at, output := u.between(0, length), u.chance(0.5)
		u.after(at, "a sign of life", func() {
			if wt.over || wt.dies() {
				return
			}
			in := core.Beat{Step: wt.task.Token.Step, Attempt: wt.task.Token.Attempt, Output: output}
			if !output && u.chance(0.5) {
				in.Details = fmt.Appendf(nil, `{"at":%d}`, at.Milliseconds())
			}
			if u.chance(0.5) {
				in.At = u.clock()
			}
			wt.report(in)
		})
	}
}

// end ends the execution.
func (wt *workerTask) end() {
	u := wt.w.n.u
	at := stepOfRun{wt.task.Token.Run, wt.task.Token.Step}
	wt.over = true
	if s := wt.search; s != nil {
		wt.search = nil
		s.End()
	}
	if u.executing[at] == wt {
		delete(u.executing, at)
	}
}

// finish ends the work and reports its result.
func (wt *workerTask) finish() {
	if wt.over || wt.dies() || wt.revoked {
		return
	}
	u := wt.w.n.u
	wt.end()
	in := wt.ending()
	wt.report(in)
	if u.chance(u.profile.repeats) { // the worker is not sure that its report has arrived
		u.after(u.span(time.Millisecond, 5*time.Minute), "a repeated report", func() { wt.report(in) })
	}
}

// ending returns how the work ended.
func (wt *workerTask) ending() core.TaskEnded {
	u := wt.w.n.u
	in := core.TaskEnded{Step: wt.task.Token.Step, Attempt: wt.task.Token.Attempt}
	bad := u.profile.failures
	if u.noFaults {
		bad = 0.02
	}
	switch {
	case wt.serviceFails():
		in.Failure = &policy.Failure{Kind: policy.KindError, Message: "the service fails"}
	case u.chance(bad):
		in.Failure = wt.failure()
	default:
		in.Output = fmt.Appendf(nil, `{"attempt":%d}`, in.Attempt)
		if in.Step%4 == 1 {
			in.Output = fmt.Appendf(nil, `{"attempt":%d,"step":%d,"fill":%q}`, in.Attempt, in.Step,
				strings.Repeat("x", largeOutput))
		}
	}
	if u.chance(0.1) {
		in.Details = []byte(`{"last":true}`)
	}
	return in
}

// waitsForFunction reports whether the attempt waits for its function.
func (wt *workerTask) waitsForFunction() bool {
	return !wt.begun && !wt.over && !wt.revoked && wt.search != nil
}

// giveBack ends an attempt whose function was not found. Its work has not begun.
func (wt *workerTask) giveBack() {
	wt.end()
	wt.report(core.TaskEnded{Step: wt.task.Token.Step, Attempt: wt.task.Token.Attempt, Failure: &policy.Failure{
		Kind: policy.KindLost, Type: core.TypeNotBegun, Message: "the body has not come to the step yet",
	}})
}

// simulatedFailure is the message of the failures that attempts report.
const simulatedFailure = "simulated"

func (wt *workerTask) failure() *policy.Failure {
	u := wt.w.n.u
	f := &policy.Failure{Kind: policy.KindError, Message: simulatedFailure}
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
		delay := u.span(time.Millisecond, 10*time.Minute)
		f.RetryAfter = &delay
	}
	return f
}

// report sends a report, which arrives after a while. If the process has died by then, nothing happens.
func (wt *workerTask) report(in core.Input) {
	u := wt.w.n.u
	lag := u.between(0, u.profile.callTime)
	if u.noFaults {
		lag = 0
	}
	if _, over := in.(core.TaskEnded); over && !u.noFaults && u.chance(u.profile.repeats) {
		lag += u.span(time.Second, time.Minute) // the first report is lost, and this is the second
	}
	run := wt.task.Token.Run
	if lag == 0 && !u.chance(0.3) {
		lag = time.Microsecond
	}
	u.after(lag, "a report arrives", func() {
		if wt.task.Secret != 0 {
			wt.toOwner(in)
			return
		}
		wt.w.n.report(run, in)
	})
}

// Revoke implements slots.Workers. The worker must stop the work.
func (w *workers) Revoke(tok core.Token, _ policy.Kind) {
	u := w.n.u
	if w.dead {
		return
	}
	u.tracef("%s revokes %s", w.n.name, tokenText(tok))
	wt := w.tasks[tok]
	if wt == nil {
		// The work has ended already, or never arrived.
		w.stopReports[tok] = true
		u.after(0, "nothing to stop", func() {
			w.n.report(tok.Run, core.TaskStopped{Step: tok.Step, Attempt: tok.Attempt})
		})
		return
	}
	if wt.revoked {
		return
	}
	wt.revoked = true
	grace := u.between(0, 10*time.Millisecond)
	abandoned := false
	if u.chance(u.profile.slowStops) {
		grace = u.between(0, 10*time.Second)
		abandoned = !wt.over && u.chance(0.3)
	}
	u.after(grace, "work has stopped", func() { wt.stopped(grace, abandoned) })
}

func (wt *workerTask) stopped(grace time.Duration, abandoned bool) {
	if wt.w.dead {
		return // the next owner tells a remote worker again
	}
	u := wt.w.n.u
	if abandoned && !wt.over {
		wt.abandoned = true
		u.after(u.span(time.Second, time.Hour), "abandoned work ends", wt.end)
	} else {
		wt.end()
	}
	if u.chance(u.profile.repeats) { // the work has ended while the request to stop it was on its way
		wt.report(core.TaskEnded{Step: wt.task.Token.Step, Attempt: wt.task.Token.Attempt, Output: []byte(`"late"`)})
	}
	in := core.TaskStopped{Step: wt.task.Token.Step, Attempt: wt.task.Token.Attempt, Abandoned: abandoned}
	in.Killed = grace > time.Second
	wt.report(in)
	if u.chance(u.profile.repeats) {
		u.after(u.span(time.Millisecond, time.Minute), "a repeated report", func() { wt.report(in) })
	}
}

// forget drops an attempt when the engine gets the report of its end. It reports whether that leaves a place.
func (w *workers) forget(run core.RunID, in core.Input) (left bool) {
	tok := core.Token{Run: run}
	switch in := in.(type) {
	case core.TaskEnded:
		tok.Step, tok.Attempt = in.Step, in.Attempt
	case core.TaskStopped:
		tok.Step, tok.Attempt = in.Step, in.Attempt
	default:
		return false
	}
	wt := w.tasks[tok]
	if _, stopped := in.(core.TaskStopped); stopped {
		delete(w.stopReports, tok)
	} else if wt != nil && wt.revoked {
		w.stopReports[tok] = true // another report must follow: that its work has stopped
	}
	if wt == nil {
		wt = w.killed[tok]
	}
	if wt != nil {
		delete(w.tasks, tok)
		delete(w.killed, tok)
		w.busy[wt.task.Type]--
	}
	return wt != nil
}

// noteTaken notes that a run's body has taken the end of an attempt. It must give that end to the engine.
func (w *workers) noteTaken(run core.RunID, end core.TaskEnded) {
	if wt := w.tasks[core.Token{Run: run, Step: end.Step, Attempt: end.Attempt}]; wt != nil {
		wt.taken = true
	}
}

// kill ends the workers when their process dies.
func (w *workers) kill() {
	w.dead = true
	w.leaveRemote()
	for _, tok := range w.tokens() {
		w.tasks[tok].end()
	}
	w.killed, w.tasks = w.tasks, map[core.Token]*workerTask{}
}

// endHanging makes work end that hangs.
func (w *workers) endHanging() {
	for _, tok := range w.tokens() {
		w.tasks[tok].endHanging()
	}
}

// endHanging makes the work end if it hangs and nobody has told it to stop.
func (wt *workerTask) endHanging() {
	if !wt.silent || wt.revoked {
		return
	}
	wt.silent = false
	u := wt.w.n.u
	u.after(u.between(0, time.Minute), "work that hung ends", func() {
		wt.over = false
		wt.finish()
	})
}

// tokens lists the attempts that the workers have, always in the same order.
func (w *workers) tokens() []core.Token {
	out := make([]core.Token, 0, len(w.tasks))
	for tok := range w.tasks {
		out = append(out, tok)
	}
	slices.SortFunc(out, compareTokens)
	return out
}
