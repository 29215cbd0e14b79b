package pawl

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// The task types of Go workflows.
const (
	typeLocal = "go"      // a function in the body
	typeHook  = "go-hook" // a function of the definition
	typeMark  = "mark"    // recorded, never executed
)

// host runs the bodies of an engine's Go workflows: it is the engine's Bodies, the executor of local steps, and stands
// between the workers and the engine so that the end of an attempt and what the body makes of it are one commit.
type host struct {
	engine     machineRoom
	log        *slog.Logger
	observer   Observer
	intercept  Interceptor
	codec      Codec
	maxPayload int
	task       time.Duration
	grace      time.Duration

	ctx    context.Context
	cancel context.CancelFunc

	mu        sync.Mutex
	workflows map[string]*definition
	sessions  map[core.RunID]*session
	troubles  map[core.RunID]*trouble
	closed    bool

	generation int // of new sessions
}

// machineRoom is what a host needs of an engine.
type machineRoom interface {
	Do(run core.RunID, body *engine.Body, inputs []core.Input, done func(error))
	Consult(run core.RunID)
	Begin(run core.RunID, step core.StepID)
	Rematch()
	Report(run core.RunID, in core.Input)
	Confirm(run core.RunID, in core.Input, done func(ended bool))
}

// trouble is what keeps a run's body from going on.
type trouble struct {
	err   error
	times int
}

var (
	_ engine.Bodies    = (*host)(nil)
	_ worker.Announcer = (*host)(nil)
	_ worker.Confirmer = (*host)(nil)
)

// definitionID is the id of a Go workflow's definition: its name. A body that changes is told by the keys of its steps.
func definitionID(name string) core.DefinitionID {
	sum := sha256.Sum256([]byte("go\x00" + name))
	return core.DefinitionID(sum[:16])
}

func source(name string) journal.Definition {
	src, err := json.Marshal(map[string]string{"kind": journal.KindGo, "name": name})
	if err != nil {
		src = []byte("{}") // a map of strings always can be written
	}
	return journal.Definition{ID: definitionID(name), Kind: journal.KindGo, Name: name, Source: src}
}

// compile makes the machine's definition of a function. The workflow may be registered later.
func (h *host) compile(d journal.Definition) (*core.Definition, error) {
	return (&machineDefinition{host: h, name: d.Name}).asMachine(), nil
}

// registered finds what is stored of a workflow that the program knows by name.
func (h *host) registered(name string) (journal.Definition, error) {
	d := h.definition(name)
	if d == nil {
		return journal.Definition{}, errors.New("it is not registered here: pass it to Config.Workflows or Engine.Register")
	}
	return d.source(), nil
}

func (h *host) definition(name string) *definition {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.workflows[name]
}

// register makes a workflow known, and calls the bodies of runs that waited for it.
func (h *host) register(d *definition) error {
	if d.err != nil {
		return d.err
	}
	h.mu.Lock()
	if known := h.workflows[d.name]; known != nil {
		h.mu.Unlock()
		if known.same(d) {
			return nil
		}
		return fmt.Errorf("pawl: workflow %q is defined twice: give one of the two another name", d.name)
	}
	if h.workflows == nil {
		h.workflows = map[string]*definition{}
	}
	h.workflows[d.name] = d
	var waiting []*session
	for _, s := range h.sessions {
		waiting = append(waiting, s)
	}
	h.mu.Unlock()
	for _, s := range waiting {
		s.mu.Lock()
		stuck := s.stuck != nil
		s.mu.Unlock()
		if stuck {
			h.again(s)
		}
	}
	if h.engine != nil {
		h.engine.Rematch() // hooks of its runs may have waited for it
	}
	return nil
}

// Consult brings news of a run. It is called by the engine's loop.
func (h *host) Consult(n engine.News) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return
	}
	s := h.sessions[n.Run]
	if n.Held {
		h.mu.Unlock()
		if s != nil {
			s.hold()
		}
		return
	}
	fresh := s == nil
	if fresh {
		s = newSession(h, n.Run)
		h.sessions[n.Run] = s
	}
	h.mu.Unlock()
	if fresh && !n.Whole {
		h.engine.Consult(n.Run)
		return
	}
	if s.take(n) {
		return
	}
	h.discard(s)
	if !n.Whole {
		h.engine.Consult(n.Run)
		return
	}
	h.Consult(n)
}

// Begins reports whether the function of a task is at hand: for a local step that its run's body has asked for it, for a hook
// that its workflow is registered. A body that is not there is called, and offers its functions as it comes to them.
func (h *host) Begins(run core.RunID, workflow, step, taskType string) bool {
	switch taskType {
	case typeLocal:
		s := h.session(run)
		return s != nil && s.offers(step)
	case typeHook:
		return h.definition(workflow) != nil
	default:
		return true
	}
}

// Forget ends the session of a run that has closed.
func (h *host) Forget(run core.RunID) {
	h.mu.Lock()
	s := h.sessions[run]
	h.mu.Unlock()
	if s != nil {
		h.discard(s)
	}
	h.solved(run) // last, since a session may find until its end that it cannot go on
}

// Reset ends all sessions.
func (h *host) Reset(generation int) {
	h.mu.Lock()
	h.generation = generation
	all := h.sessions
	h.sessions = map[core.RunID]*session{}
	h.mu.Unlock()
	for _, s := range all {
		s.mu.Lock()
		s.kill()
		s.mu.Unlock()
	}
}

// discard ends a session whose body is not to go on.
func (h *host) discard(s *session) {
	s.mu.Lock()
	s.decider.Void()
	s.kill()
	s.mu.Unlock()
	h.drop(s)
}

// drop forgets a session that has ended.
func (h *host) drop(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[s.run] == s {
		delete(h.sessions, s.run)
	}
}

// session returns the run's session; where there is none it asks for news to make one. A host that closes has none.
func (h *host) session(run core.RunID) *session {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	s := h.sessions[run]
	fresh := s == nil
	if fresh {
		s = newSession(h, run)
		h.sessions[run] = s
	}
	h.mu.Unlock()
	if fresh {
		h.engine.Consult(run)
	}
	return s
}

// again calls a run's body anew, if the run is open still.
func (h *host) again(s *session) {
	h.discard(s)
	h.engine.Consult(s.run)
}

// later calls a run's body anew after a while, if nobody else does before.
func (h *host) later(run core.RunID, d time.Duration) {
	time.AfterFunc(d, func() {
		if h.ctx.Err() == nil {
			h.engine.Consult(run)
		}
	})
}

// problem notes that a body cannot go on, and has it called again: at once where only its time was over, else after a
// pause that doubles from the task limit up to ten minutes. The session is locked.
func (h *host) problem(s *session, err error) {
	h.mu.Lock()
	t := h.troubles[s.run]
	if t == nil {
		t = &trouble{}
		h.troubles[s.run] = t
	}
	t.err = err
	t.times++
	pause := min(h.task<<min(t.times-1, 20), 10*time.Minute)
	var late *TaskTimeoutError
	if errors.As(err, &late) && t.times == 1 {
		pause = 0
	}
	h.mu.Unlock()
	h.log.Error("a workflow's body cannot go on and is called again", "run", s.run.String(), "in", pause.String(), "error", err)
	if h.observer != nil {
		h.observer.BodyStopped(s.run.String(), err)
	}
	time.AfterFunc(pause, func() {
		if h.ctx.Err() == nil {
			h.again(s)
		}
	})
}

func (h *host) solved(run core.RunID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.troubles, run)
}

// trouble returns what keeps a run's body from going on; nil: nothing.
func (h *host) trouble(run core.RunID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.troubles[run]; t != nil {
		return t.err
	}
	return nil
}

// Report takes what workers report.
func (h *host) Report(run core.RunID, in core.Input) {
	if end, ok := in.(core.TaskEnded); ok && end.Failure == nil {
		h.mu.Lock()
		s := h.sessions[run]
		h.mu.Unlock()
		if s != nil && s.ended(end) {
			return
		}
	}
	h.engine.Report(run, in)
}

// Confirm reports that an attempt begins.
func (h *host) Confirm(run core.RunID, in core.Input, done func(ended bool)) {
	h.engine.Confirm(run, in, done)
}

// Execute runs an attempt of a local step or of a hook.
func (h *host) Execute(ctx context.Context, t core.Task, alive worker.Alive) worker.Result {
	if t.Type == typeHook {
		fn, err := h.hook(t)
		if err != nil {
			return worker.Result{Failure: failureOf(err)}
		}
		return h.call(h.attempt(ctx, t, alive, h.codec), fn)
	}
	for ctx.Err() == nil {
		s := h.session(t.Token.Run)
		if s == nil {
			<-ctx.Done() // the pool is about to be closed as well
			break
		}
		fn, ok := s.function(ctx, t)
		if !ok {
			continue
		}
		if fn == nil {
			return notReached()
		}
		defer s.taskOver()
		return h.call(h.attempt(ctx, t, alive, h.codec), fn)
	}
	return notBegun(ctx)
}

// notReached gives an attempt back whose body does not come to its function for now, so that it holds no slot of what
// the body may be waiting for. It counts for nothing, and the next attempt starts when the body has come to the step.
func notReached() worker.Result {
	return worker.Result{Failure: &policy.Failure{
		Kind: policy.KindLost, Type: core.TypeNotBegun, Message: "the workflow's body has not come to the step yet",
	}}
}

func notBegun(ctx context.Context) worker.Result {
	return worker.Result{Failure: &policy.Failure{Kind: policy.KindCancelled, Type: "stopped", Message: context.Cause(ctx).Error()}}
}

// Announces says that Execute looks for a step's function before the attempt begins.
func (h *host) Announces() {}

// call runs a step's function in a goroutine of its own, so that one which does not heed its context can be abandoned.
func (h *host) call(at *attempt, fn stepFunc) worker.Result {
	if !worker.Announce(at) {
		return notBegun(at)
	}
	done := make(chan worker.Result, 1)
	go func() {
		res := worker.Result{Failure: failureOf(errors.New("the step ended its goroutine instead of returning (runtime.Goexit, or FailNow of a test)"))}
		defer func() {
			if v := recover(); v != nil {
				res = worker.Result{Failure: failureOf(newPanic(v, debug.Stack()))}
			}
			done <- res
		}()
		began := time.Now()
		out, err := h.around(at, fn)
		if err == nil {
			err = h.tooLarge(fmt.Sprintf("the result of step %q", at.task.StepName), out)
		}
		if h.observer != nil {
			h.observer.AttemptEnded(at.info(), time.Since(began), err)
		}
		switch {
		case err != nil:
			res = worker.Result{Failure: failureOf(err)}
		default:
			res = worker.Result{Output: out}
		}
	}()
	select {
	case res := <-done:
		return res
	case <-at.Done():
	}
	at.ladder.Lock()
	at.ladder.Unlock() //nolint:staticcheck // it only waits
	grace := time.NewTimer(h.grace)
	defer grace.Stop()
	select {
	case res := <-done:
		return res
	case <-grace.C:
		return worker.Result{Abandoned: true}
	}
}

// around runs a step's function within the interceptor.
func (h *host) around(at *attempt, fn stepFunc) ([]byte, error) {
	if h.intercept == nil {
		return fn(at)
	}
	return h.intercept(at, at.info(), fn)
}

func (h *host) close() {
	h.mu.Lock()
	h.closed = true
	generation := h.generation
	h.mu.Unlock()
	h.Reset(generation)
	h.cancel()
}
