package body

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/worker"
)

// EngineCalls is the part of an engine that a host needs. None of them may block.
type EngineCalls interface {
	Do(run core.RunID, body *engine.Body, inputs []core.Input, done func(error))
	Consult(run core.RunID)
	Begin(run core.RunID, step core.StepID)
	Rematch()
	Report(run core.RunID, in core.Input)
	Confirm(run core.RunID, in core.Input, done func(ended bool))
}

// Config configures a host. All but Turns, Stopped and Shell is needed.
type Config struct {
	Log       *slog.Logger
	TaskLimit time.Duration // the limit of tasks in workflows that have none
	// Grace is how long an attempt may take to return after its context is done, before it is abandoned.
	Grace time.Duration
	// Turns is how many bodies may be at work at once; the others are called when their turns have come. Default 512.
	Turns int
	// Workflow finds a workflow by its name, nil if it is not registered. It must not call the host.
	Workflow func(name string) *Function
	// Attempt runs the function of a local step or of a hook, in a goroutine of its own.
	Attempt func(ctx context.Context, t *core.Task, alive worker.Alive, fn Func) worker.Result
	// Lost is the result of an attempt whose function has ended its goroutine instead of returning.
	Lost worker.Result
	// StuckError makes the error that users get of why a body cannot go on. It must not call the host.
	StuckError func(*Stuck) error
	// Rehearsal means that bodies are only replayed: a recorded decision that they do not make again is a change of the
	// code.
	Rehearsal bool
	// Stopped is called when a body cannot go on.
	Stopped func(run core.RunID, err error)
	Shell   Shell // default: goroutines and the clock of the process
}

// Host runs the bodies of an engine's Go workflows. It is the engine's Bodies and the executor of local steps and
// hooks. It is between the workers and the engine so that the end of an attempt and the body's reaction to it are one
// commit.
//
// It locks the table for short times only, and may do so while a session is locked; never the other way around.
type Host struct {
	cfg    Config
	shell  Shell
	engine EngineCalls
	ctx    context.Context
	cancel context.CancelFunc
	// abandon is the treatment of attempts whose functions ignore their contexts.
	abandon *worker.Abandon

	follow Follow

	live atomic.Int64 // sessions in the table

	mu    sync.Mutex
	turns turns
	table *Table[*liveSession]
	asked map[core.RunID][]*Asked // updates that callers wait for
}

var (
	_ engine.Bodies    = (*Host)(nil)
	_ worker.Announcer = (*Host)(nil)
	_ worker.Confirmer = (*Host)(nil)
)

// NewHost returns a host. The values of the context are those of the bodies' contexts. It can be used once it knows its
// engine; see [Host.Attach].
func NewHost(ctx context.Context, cfg Config) *Host {
	h := &Host{cfg: cfg, shell: cfg.Shell, table: NewTable[*liveSession](), asked: map[core.RunID][]*Asked{}}
	h.turns = turns{most: cfg.Turns, listed: map[core.RunID]bool{}, called: map[core.RunID]bool{}}
	if h.turns.most <= 0 {
		h.turns.most = mostAtWork
	}
	h.abandon = &worker.Abandon{Grace: cfg.Grace, Lost: cfg.Lost}
	if h.shell == nil {
		h.shell = &process{}
	}
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return h
}

// Attach gives the host its engine.
func (h *Host) Attach(e EngineCalls) { h.engine = e }

// Follow is called for calls of bodies, with the lease of their latest news. Its functions may be nil.
type Follow struct {
	Gone    func(run core.RunID, lease any) // a call has ended. The session is locked, so it must not block
	Again   func(run core.RunID, lease any) // the body has to be called again; default: the engine is asked to do it
	Stopped func(run core.RunID, err error) // the body cannot go on
}

// Follow sets who follows the calls of bodies. Call it before the host is used.
func (h *Host) Follow(f Follow) { h.follow = f }

// open returns a run's session, and makes one if there is none. It returns nil once the host is closed, and while the
// run waits for its turn; urgent runs do not wait.
func (h *Host) open(run core.RunID, urgent bool) (l *liveSession, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.table.Find(run); known || urgent {
		h.turns.forget(run)
	} else if h.turns.wait(run) {
		h.keepTicking()
		return nil, false
	}
	l, fresh, _ = h.table.Open(run, func(generation int) *liveSession { return h.newLiveSession(run, generation) })
	if fresh {
		h.turns.taken++
		h.live.Store(int64(h.table.Len()))
	}
	return l, fresh
}

// session returns what open returns, and asks for the news that a new session waits for.
func (h *Host) session(run core.RunID, urgent bool) *liveSession {
	l, fresh := h.open(run, urgent)
	if fresh {
		h.engine.Consult(run)
	}
	return l
}

func (h *Host) find(run core.RunID) *liveSession {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, _ := h.table.Find(run)
	return l
}

// drop forgets a session.
func (h *Host) drop(l *liveSession) {
	h.mu.Lock()
	h.table.Drop(l.session.run, l)
	h.live.Store(int64(h.table.Len()))
	runs := h.turnOver(l)
	h.mu.Unlock()
	h.consultAll(runs)
}

func (h *Host) clearStuck(run core.RunID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.table.ClearStuck(run)
}

func (h *Host) consultAll(runs []core.RunID) {
	for _, run := range runs {
		h.engine.Consult(run)
	}
}

// callAgain makes the host call a run's body after a while, if nothing else does so before.
func (h *Host) callAgain(run core.RunID, lease any, pause time.Duration) {
	call := func() {
		if h.follow.Again != nil {
			h.follow.Again(run, lease)
			return
		}
		h.engine.Consult(run)
	}
	if pause == 0 {
		call()
		return
	}
	h.shell.AfterFunc(run, TimerRetry, pause, func() {
		if h.ctx.Err() == nil {
			call()
		}
	})
}

// Consult brings news of a run. It is called by the engine's loop.
func (h *Host) Consult(n engine.News) (decides bool) { return h.ConsultFor(n, nil) }

// ConsultFor works as Consult. The lease of the news is returned when the call of the body has ended.
func (h *Host) ConsultFor(n engine.News, lease any) (decides bool) {
	var l *liveSession
	fresh := false
	if n.Held {
		h.mu.Lock()
		l, _ = h.table.Find(n.Run)
		h.turns.forget(n.Run)
		h.mu.Unlock()
	} else {
		l, fresh = h.open(n.Run, false)
	}
	switch {
	case l == nil:
		return false
	case fresh && !n.Whole:
		h.engine.Consult(n.Run)
		return false
	default:
		l.lock()
		defer l.unlock()
		if lease != nil {
			l.lease = lease
		}
		l.session.News(n)
		return !n.Held
	}
}

// CanBegin reports whether the function of a task is available: for a local step, its run's body has asked for the
// step; for a hook, its workflow is registered. A body that is not in memory is called, and reports when it reaches the
// step.
func (h *Host) CanBegin(run core.RunID, workflow, step, taskType string) bool {
	switch taskType {
	case TypeLocal:
		l := h.session(run, false)
		if l == nil {
			return false
		}
		l.lock()
		defer l.unlock()
		return l.session.Offers(step)
	case TypeHook:
		return h.cfg.Workflow(workflow) != nil
	default:
		return true
	}
}

// Forget ends the session of a run that has closed.
func (h *Host) Forget(run core.RunID) {
	if l := h.find(run); l != nil {
		l.lock()
		l.session.Discard()
		l.unlock()
	}
	h.lookAgain(run)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turns.forget(run)
	h.table.ClearStuck(run) // last, since a session may find until its end that it cannot go on
}

// Reset ends the sessions of the runs that live where memory was forgotten.
func (h *Host) Reset(generation int, lives func(core.RunID) bool) {
	h.mu.Lock()
	all := h.table.Reset(generation, lives)
	h.turns.reset(lives)
	h.live.Store(int64(h.table.Len()))
	for run, asked := range h.asked {
		if lives(run) {
			for _, a := range asked {
				a.tell()
			}
		}
	}
	h.mu.Unlock()
	end(all)
}

// Close ends all sessions for good.
func (h *Host) Close() {
	h.mu.Lock()
	all := h.table.Close()
	for _, asked := range h.asked {
		for _, a := range asked {
			close(a.again)
		}
	}
	clear(h.asked)
	h.mu.Unlock()
	end(all)
	h.cancel()
	if p, ok := h.shell.(*process); ok {
		p.close()
	}
}

func end(all []*liveSession) {
	for _, l := range all {
		l.lock()
		l.session.End()
		l.unlock()
	}
}

// Registered notes that a workflow was registered. Stuck bodies are called again, since they may need it.
func (h *Host) Registered() {
	h.mu.Lock()
	all := h.table.All()
	h.mu.Unlock()
	for _, l := range all {
		l.lock()
		if l.session.phase == phaseStuck {
			l.session.Retry()
			h.clearStuck(l.session.run) // it may have been this workflow that was missing: the call shows what else is
		}
		l.unlock()
	}
	if h.engine != nil {
		h.engine.Rematch() // hooks of its runs may have waited for it
	}
}

// Problem returns why a run's body cannot go on, nil if it can.
func (h *Host) Problem(run core.RunID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.table.Problem(run)
}

// Problems returns why bodies cannot go on, by run.
func (h *Host) Problems() map[core.RunID]error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.table.Problems()
}

// Sessions returns the number of calls of bodies that the host knows.
func (h *Host) Sessions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.table.Len()
}

// tell reports that a body cannot go on.
func (h *Host) tell(run core.RunID, p problem) {
	h.cfg.Log.Error("a workflow's body cannot go on and is called again", "id", "body-stuck",
		"run", run.String(), "in", p.pause.String(), "error", p.err)
	if h.cfg.Stopped != nil {
		h.cfg.Stopped(run, p.err)
	}
	if h.follow.Stopped != nil {
		h.follow.Stopped(run, p.err)
	}
}

// Ended takes the successful end of an attempt, where the run's body is there to answer it. It reports whether it
// did.
func (h *Host) Ended(run core.RunID, in core.Input) bool {
	l := h.find(run)
	if l == nil {
		return false
	}
	l.lock()
	defer l.unlock()
	return l.session.Ended(in)
}

// Report takes what workers report.
func (h *Host) Report(run core.RunID, in core.Input) {
	if !h.Ended(run, in) {
		h.engine.Report(run, in)
	}
}

// Confirm reports that an attempt begins.
func (h *Host) Confirm(run core.RunID, in core.Input, done func(ended bool)) {
	h.engine.Confirm(run, in, done)
}
