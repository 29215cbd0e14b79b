package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/policy"
)

// remoteType is the task type that workers in other processes execute, in universes that have such workers.
const remoteType = "c"

// remoteWorkers are workers in other processes from the view of a node's engine. Unlike those of the node, they outlive
// it: their work goes on, and they report to the next owner of the partition.
type remoteWorkers struct {
	u        *universe
	of       func(run core.RunID) *workers // it returns the workers of the node that owns the run's partition
	busy     func(taskType string) int     // it counts the busy ones in the process
	reserved map[uint64]bool
}

// addRemote adds remote workers to a matcher, in universes that have them.
func (u *universe) addRemote(m *slots.Matcher, of func(core.RunID) *workers, busy func(string) int) {
	r := &remoteWorkers{u, of, busy, map[uint64]bool{}}
	switch {
	case !u.remote:
	case u.opt.LoseRemote && u.opens > 0:
		m.Add("", localWorkers{r})
	default:
		m.AddRemote("", r)
	}
}

// localWorkers are remote workers that an engine treats as those of its own process.
type localWorkers struct{ slots.RemoteWorkers }

func (localWorkers) Do(core.Task) (core.TaskEnded, bool) { return core.TaskEnded{}, false }

// count returns how many attempts of a type the workers have.
func (w *workers) count(taskType string) int { return w.busy[taskType] }

// newRemote decides whether a universe has remote workers: it has, if the planted mistake is one about them. It uses
// random numbers of its own, so that universes without them do not change.
func newRemote(u *universe) bool {
	r := newRandom(u.seed, 0x4e307e)
	return r.chance(0.4) || u.opt.LoseRemote || u.opt.LosePromise || u.opt.KeepNotBegun
}

// Slots implements slots.Workers: it counts the seats that are free.
func (r *remoteWorkers) Slots(_, taskType string) int {
	if taskType != remoteType {
		return 0
	}
	slots := r.u.profile.slots[remoteType]
	if slots < 0 {
		return 1000
	}
	return max(slots-r.busy(remoteType)-len(r.reserved), 0)
}

func (r *remoteWorkers) Reserve(string, string) slots.Seat {
	secret := r.u.Uint64() | 1
	r.reserved[secret] = true
	promises := r.u.way.chance(0.7)
	r.u.way.promised[secret] = promises
	return slots.Seat{Worker: "remote", Secret: secret, Confirms: promises && !r.u.opt.LosePromise}
}

func (r *remoteWorkers) Return(s slots.Seat) {
	if !r.reserved[s.Secret] {
		r.u.violate(Slots, core.RunID{}, "a seat is given back that was not reserved, or has its task")
	}
	delete(r.reserved, s.Secret)
}

func (r *remoteWorkers) Dispatch(t core.Task) {
	w := r.of(t.Token.Run)
	if !r.reserved[t.Secret] && !w.dead {
		r.u.violate(Slots, t.Token.Run, "attempt %s has no seat", tokenText(t.Token))
	}
	delete(r.reserved, t.Secret)
	w.Dispatch(t)
}

func (r *remoteWorkers) Revoke(tok core.Token, why policy.Kind) { r.of(tok.Run).Revoke(tok, why) }

func (*remoteWorkers) Serves(string) bool { return true }

func (r *remoteWorkers) Has(tok core.Token) bool { return r.of(tok.Run).tasks[tok] != nil }

// Keep implements slots.RemoteWorkers. Work of the node before goes on.
func (r *remoteWorkers) Keep(t core.Task) {
	w := r.of(t.Token.Run)
	if w.dead {
		return
	}
	w.n.u.checker.goesOn(w.n, t.Token)
	if w.tasks[t.Token] != nil {
		return
	}
	home, u := w.n.home, w.n.u
	u.tracef("%s keeps %s", w.n.name, tokenText(t.Token))
	wt := home.remote[t.Token]
	delete(home.remote, t.Token)
	if wt == nil {
		wt = u.way.missing(w, t)
	}
	wt.w = w
	w.tasks[t.Token] = wt
	w.busy[t.Type]++
	if u.noFaults {
		w.endHanging()
	}
}

// leaveRemote leaves the work of remote workers to the next owner of the partition, because this one ends.
func (w *workers) leaveRemote() {
	for _, tok := range w.tokens() {
		wt := w.tasks[tok]
		if wt.task.Secret == 0 || wt.missing || !wt.begun || wt.over && wt.silent {
			continue // no worker has it, except those of the process itself
		}
		if wt.revoked && !wt.silent { // it may have ended while it was told to stop, and has not reported that
			w.n.u.after(w.n.u.between(0, time.Minute), "work ends", wt.finish)
		}
		wt.revoked, wt.taken = false, false // the next owner tells it again, and its body does not know of it
		w.n.home.remote[tok] = wt
		delete(w.tasks, tok)
		if w.n.u.noFaults {
			wt.endHanging()
		}
	}
}

// endHangingRemote makes work of remote workers end that hangs and that no owner has asked for. Owners do not ask for
// work that is still stopping after the end of its run: its worker learns of that with its next report.
func (s *simPartition) endHangingRemote() {
	for _, tok := range slices.SortedFunc(maps.Keys(s.remote), compareTokens) {
		s.remote[tok].endHanging()
	}
}

// toOwner sends a remote worker's report to who owns the partition now. The worker repeats the report of an end until
// it is in the journal.
func (wt *workerTask) toOwner(in core.Input) {
	u, home, tok := wt.w.n.u, wt.w.n.home, wt.task.Token
	_, beat := in.(core.Beat)
	if home.node.up() {
		if home.remote[tok] == wt {
			home.node.adopt(wt)
		}
		home.node.report(tok.Run, in)
	}
	if !beat {
		u.after(u.span(time.Second, 5*time.Second), "a worker hears that its report was taken, or repeats it", func() {
			if u.checker.hasAttempt(tok) {
				wt.toOwner(in)
			} else if _, stopped := in.(core.TaskStopped); stopped { // it learns that the attempt is over
				delete(home.node.workers.stopReports, tok)
			}
		})
	}
}

// adopt gives the work of a remote worker to a node that has not asked for it yet.
func (n *node) adopt(wt *workerTask) {
	delete(n.home.remote, wt.task.Token)
	wt.w, wt.adopted = n.workers, true
	n.workers.tasks[wt.task.Token] = wt
	n.workers.busy[wt.task.Type]++
}

// forgetRemote drops the work of remote workers that no owner has asked for, since its attempt has ended.
func (u *universe) forgetRemote() {
	for _, s := range u.partitions {
		if !s.node.up() {
			continue
		}
		for _, tok := range s.node.workers.tokens() { // the report for which it was adopted came too late
			if wt := s.node.workers.tasks[tok]; wt.adopted && !u.checker.hasAttempt(tok) {
				s.node.workers.forget(tok.Run, core.TaskStopped{Step: tok.Step, Attempt: tok.Attempt})
				wt.end()
			}
		}
		for tok, wt := range s.remote {
			if !u.checker.hasAttempt(tok) {
				wt.end()
				delete(s.remote, tok)
			}
		}
	}
}

// hasAttempt reports whether an attempt is live, or its work has not stopped.
func (ch *checker) hasAttempt(tok core.Token) bool {
	a := ch.accounts[tok.Run]
	if a == nil || int(tok.Step) >= len(a.model.steps) {
		return false
	}
	s := &a.model.steps[tok.Step]
	return s.attempt == tok.Attempt && (s.live || s.stopping)
}

// checkRemote checks who executes an attempt that starts, and that no attempt of a remote worker is lost because its
// engine has died.
func (m *runModel) checkRemote(s *stepModel, i int, rec core.Record) {
	remote := m.ch.u.remote && s.spec.Type == remoteType && s.kind == core.KindTask
	switch rec := rec.(type) {
	case core.AttemptStarted:
		if (rec.Secret != 0) != remote {
			m.fail(Recorded, "an attempt of step %s, of type %s, starts with the secret %d", m.name(i), s.spec.Type,
				rec.Secret)
		}
	case core.AttemptEnded:
		tok := core.Token{Run: m.a.id, Step: core.StepID(i), Attempt: s.attempt}
		if f := rec.Failure; remote && s.live && f != nil && f.Kind == policy.KindLost &&
			(f.Type == "lost" || f.Type == core.TypeNotBegun && !m.ch.u.way.mayNotBegin(tok)) {
			m.fail(OneAttempt, "attempt %d of step %s is lost with its engine, and its worker goes on", s.attempt,
				m.name(i))
		}
	default:
	}
}
