package body

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// maxStaying is how many bodies a host may have so that those whose steps wait for a worker stay. Beyond that, memory
// matters more than the time for calling them again. It is about 100 MiB.
const maxStaying = 10_000

// liveSession is a session with its lock, its timers, and the goroutines of its branches.
type liveSession struct {
	host *Host

	atWork  bool         // its turn is not over; the host's lock guards it
	touched atomic.Int64 // the host's beat when this was last locked
	// self is nil once the session is of no more use: attempts that still run then keep nothing of it in memory.
	self *atomic.Pointer[liveSession]

	mu       sync.Mutex
	ctx      context.Context // the body's context, done when it is unwound; nil if nobody has asked for it
	cancel   context.CancelFunc
	unwound  bool
	session  *Session
	lease    any // see Host.ConsultFor
	alarms   [timers]Alarm
	armed    [timers]bool
	stale    [timers]int // calls of alarms that are on their way although they were stopped
	searches []*Search   // the searches of attempts that wait for their functions
	retired  bool
	problems []problem // the problems to report when the lock is free
}

// problem is the reason why a body cannot go on, and when it is called again.
type problem struct {
	err   error
	pause time.Duration
}

// newLiveSession returns a session that waits for news.
func (h *Host) newLiveSession(run core.RunID, generation int) *liveSession {
	l := &liveSession{host: h, session: NewSession(run, generation), atWork: true, self: &atomic.Pointer[liveSession]{}}
	l.self.Store(l)
	l.session.rehearsed, l.session.leased = h.cfg.Rehearsal, h.follow.Gone != nil
	l.touched.Store(h.turns.beat.Load())
	return l
}

func (l *liveSession) lock() {
	l.mu.Lock()
	l.touched.Store(l.host.turns.beat.Load())
}

// context returns the body's context. Few bodies need one.
func (l *liveSession) context() context.Context {
	l.lock()
	defer l.unlock()
	if l.ctx == nil {
		if l.ctx, l.cancel = context.WithCancel(l.host.ctx); l.unwound {
			l.cancel()
		}
	}
	return l.ctx
}

// unwind ends the body's context.
func (l *liveSession) unwind() {
	if l.unwound = true; l.cancel != nil {
		l.cancel()
	}
}

// unlock carries out the ready work of the session, and unlocks it. The engine must get decisions in the order in which
// they were made, so it is called under the lock; the functions of users are called without it.
func (l *liveSession) unlock() {
	for r := l.session.Ready(); r != nil; r = l.session.Ready() {
		l.carryOut(r)
	}
	problems := l.problems
	l.problems = nil
	l.mu.Unlock()
	for _, p := range problems {
		l.host.tell(l.session.run, p)
	}
}

func (l *liveSession) carryOut(r *Ready) {
	h, s := l.host, l.session
	if r.Start {
		l.start()
	}
	for _, step := range r.Begin {
		h.engine.Begin(s.run, step)
	}
	for _, st := range r.Found {
		l.found(st)
	}
	if r.GiveBack {
		l.answerAll(NotReached)
	}
	if len(r.Send) > 0 {
		h.engine.Do(s.run, s.decider, r.Send, l.doneWith(r.Send))
	}
	for _, in := range r.Report {
		h.engine.Report(s.run, in)
	}
	if len(r.Refused) > 0 {
		h.refuse(s.run, r.Refused)
	}
	for t, change := range r.Timers {
		l.setTimer(Timer(t), change)
	}
	if r.Returned || r.Gone {
		l.unwind()
	}
	for _, b := range r.Wake {
		l.goOn(b)
	}
	if r.Returned {
		h.clearStuck(s.run)
	}
	if r.Stuck != nil {
		l.stuck(r.Stuck)
	}
	if r.Rests && !r.Gone {
		h.rested(l)
	}
	if r.Gone {
		h.drop(l)
		l.retired = true
		l.self.Store(nil)
		l.answerAll(LookAgain)
		if h.follow.Gone != nil {
			h.follow.Gone(s.run, l.lease)
		}
	}
	if r.CallAgain {
		h.callAgain(s.run, l.lease, r.Pause)
	}
}

// start calls the body.
func (l *liveSession) start() {
	w := l.host.cfg.Workflow(l.session.head.Workflow)
	if w == nil {
		l.session.Stop(Stuck{Why: Unknown})
		return
	}
	limit := w.TaskLimit
	if limit == 0 {
		limit = l.host.cfg.TaskLimit
	}
	l.session.Start(limit).body = w.Body
	for _, u := range l.host.offered(l.session.run) {
		l.session.Offer(u)
	}
}

// goOn lets a branch go on, which has the turn, or has to leave. With its first turn it gets its goroutine.
func (l *liveSession) goOn(b *Branch) {
	switch {
	case b.thread != nil:
		b.thread.goroutine.Unpark()
	case l.session.over():
		left(l.session, b)
	default:
		t := &Thread{live: l, branch: b, scope: b.scope}
		b.thread = t
		t.goroutine = l.host.shell.Go(l.session.run, func() {
			defer t.gone()
			b.body(t)
		})
	}
}

// gone follows the end of a branch's goroutine. Most branches have said before that they ended.
func (t *Thread) gone() {
	if !t.ended {
		t.live.lock()
		defer t.live.unlock()
		left(t.live.session, t.branch)
	}
}

// doneWith returns what the engine's loop calls when it has taken the inputs. Callers of updates have to check again if
// one was answered, and if something was refused: the run may be paused.
func (l *liveSession) doneWith(inputs []core.Input) func(error) {
	answered := answers(inputs)
	return func(err error) {
		l.answered(err)
		if answered || err != nil {
			l.host.lookAgain(l.session.run)
		}
	}
}

// answered takes the engine's answer; the engine's loop calls it.
func (l *liveSession) answered(err error) {
	l.lock()
	defer l.unlock()
	l.session.Answered(err)
}

func (l *liveSession) setTimer(t Timer, change TimerChange) {
	if change.Op == TimerStays {
		return
	}
	if l.armed[t] && !l.alarms[t].Stop() {
		l.stale[t]++ // it has gone off, and its call waits for the lock
	}
	if t == TimerIdle && l.host.live.Load() > maxStaying {
		change.After = min(change.After, IdleTime)
	}
	l.armed[t] = change.Op == TimerSet
	switch {
	case !l.armed[t]:
	case l.alarms[t] == nil:
		l.alarms[t] = l.host.shell.AfterFunc(l.session.run, t, change.After, func() { l.fired(t) })
	default:
		l.alarms[t].Reset(change.After)
	}
}

func (l *liveSession) fired(t Timer) {
	l.lock()
	defer l.unlock()
	if l.stale[t] > 0 {
		l.stale[t]--
		return
	}
	l.armed[t] = false
	l.session.Fired(t)
}

// stuck notes that the body cannot go on.
func (l *liveSession) stuck(why *Stuck) {
	h := l.host
	if why.Why == Overdue {
		var running []Goroutine
		for _, b := range l.session.branches {
			if b.state == branchRuns && b.thread != nil {
				running = append(running, b.thread.goroutine)
			}
		}
		why.Stack = h.shell.Stacks(running)
	}
	err := h.cfg.StuckError(why)
	h.mu.Lock()
	pause := h.table.NoteStuck(l.session.run, err, why.Why, h.cfg.TaskLimit)
	h.mu.Unlock()
	l.session.RetryAfter(pause)
	l.problems = append(l.problems, problem{err, pause})
}

// Search is an attempt's search for its function.
type Search struct {
	live *atomic.Pointer[liveSession]
	step string
	tell func(Answer, Func)
	over bool
}

// Answer is the result of a search.
type Answer uint8

const (
	Found      Answer = iota
	NotReached        // the body has not reached the step, and is idle: give the attempt back
	LookAgain         // this call of the body has ended: look for the next one
)

// Search looks for the function of a local step's attempt. The answer is given once, perhaps before Search returns,
// with the session locked. It returns nil once the host is closed.
func (h *Host) Search(t core.Task, tell func(Answer, Func)) *Search {
	l := h.session(t.Token.Run, true)
	if l == nil {
		return nil
	}
	l.lock()
	defer l.unlock()
	k := &Search{live: l.self, step: t.StepName, tell: tell}
	fn, waits := l.session.Want(t.StepName, t.Token.Step)
	switch {
	case fn != nil:
		tell(Found, fn)
	case !waits:
		tell(NotReached, nil)
	case l.retired:
		tell(LookAgain, nil)
	default:
		l.searches = append(l.searches, k)
	}
	return k
}

// End reports that the attempt is over, or no longer searches: it no longer needs this call of the body. Only the first
// call counts.
func (k *Search) End() {
	l := k.live.Load()
	if l == nil {
		return
	}
	l.lock()
	defer l.unlock()
	if !k.over {
		k.over = true
		l.session.AttemptOver()
	}
}

// found passes a step's function to the attempts that wait for it.
func (l *liveSession) found(st *Step) {
	l.searches = slices.DeleteFunc(l.searches, func(k *Search) bool {
		if k.step != st.key {
			return false
		}
		k.tell(Found, st.fn)
		return true
	})
}

// answerAll answers the attempts that wait for their functions.
func (l *liveSession) answerAll(a Answer) {
	for _, k := range l.searches {
		k.tell(a, nil)
	}
	l.searches = nil
}
