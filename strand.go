package pawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Context is what a workflow's body gets. It names the run, and its Done channel is closed when the body is unwound.
// Its methods are those of a context, so that it can be passed to code that computes; what touches the world belongs
// into a [Step].
type Context interface {
	context.Context
	of() *strand
}

// strand is one goroutine of a body, and its Context. Steps are numbered per strand, so that goroutines of one body do
// not disturb each other's keys.
type strand struct {
	session *session
	prefix  string       // of the keys of its steps
	id      atomic.Value // goroutine's number, to find its stack
	cursor  int          // recorded steps asked for so far
	counts  map[string]int
	last    *entry        // the last step it has seen the end of
	now     core.Time     // the instant of what it has seen last
	draws   uint64        // random numbers so far
	busy    func() string // what it waits for; nil: it runs
	until   func() bool
	woken   chan struct{}
}

func (st *strand) of() *strand                 { return st }
func (st *strand) Done() <-chan struct{}       { return st.session.ctx.Done() }
func (st *strand) Err() error                  { return st.session.ctx.Err() }
func (st *strand) Value(key any) any           { return st.session.ctx.Value(key) }
func (st *strand) Deadline() (time.Time, bool) { return st.session.deadline() }

// deadline is the run's, as it was when the body was called.
func (s *session) deadline() (time.Time, bool) {
	at := policy.Earliest(s.head.Execution.At, s.head.Deadline.At)
	return at.Std(), at != 0
}

// launch runs fn as a strand.
func (s *session) launch(st *strand, fn func(*strand)) {
	st.counts, st.woken = map[string]int{}, make(chan struct{}, 1)
	s.strands[st] = struct{}{}
	s.run1()
	go func() {
		st.id.Store(goroutine())
		fn(st)
	}()
}

// goroutine returns the number of the calling goroutine, as stacks show it.
func goroutine() string {
	var buf [64]byte
	head, _, _ := bytes.Cut(bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine ")), []byte(" "))
	return string(head)
}

// wait blocks the strand until ok, which is asked under the session's lock, holds. One of the signals fires whenever it
// may have become true. It does not return where the session ends first.
func (st *strand) wait(what func() string, ok func() bool, signals ...*signal) {
	s := st.session
	if ok() && !s.over {
		return
	}
	for !s.over {
		st.until, st.busy = ok, what
		s.blocked[st] = struct{}{}
		for _, sig := range signals {
			sig.waiting = append(sig.waiting, st)
		}
		s.running--
		s.settle()
		if len(s.buffer) > 0 { // other strands are busy: they may decide more before this goes out
			s.arm(&s.late, answerTime, s.flushLate)
		}
		s.mu.Unlock()
		<-st.woken
		s.mu.Lock()
		st.busy = nil
		if !s.over && ok() {
			return
		}
	}
	st.leave()
}

// leave ends the strand's goroutine. The session's lock is held, and released.
func (st *strand) leave() {
	st.session.mu.Unlock()
	runtime.Goexit()
}

// enter locks the session for a call of the strand's. It returns an error where the context may not be used now.
func (st *strand) enter(what func() string) error {
	s := st.session
	s.mu.Lock()
	switch {
	case s.finished:
		s.mu.Unlock()
		return fmt.Errorf("pawl: %s: %w", what(), ErrContextEnded)
	case s.over:
		st.leave()
	case st.busy != nil:
		awaited := st.busy()
		s.mu.Unlock()
		return fmt.Errorf("pawl: %s while %s is waited for: %w", what(), awaited, ErrNested)
	}
	return nil
}

// enterFor is enter for a call that waits for futures. One that belongs elsewhere is guarded by another lock, and wakes nobody here.
func (st *strand) enterFor(what func() string, futures ...Waitable) error {
	if err := st.enter(what); err != nil {
		return err
	}
	for _, f := range futures {
		if home := f.home(); home != nil && home != st.session {
			st.session.mu.Unlock()
			return fmt.Errorf("pawl: %s belongs to another run: %w", f.what(), ErrContextEnded)
		}
	}
	return nil
}

// invalid is the error of a call that makes no sense. It fails the run also where the body does not look at it, for what follows
// is not what its author meant.
func (st *strand) invalid(err error, format string, args ...any) error {
	err = invalid(err, format, args...)
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.invalid == nil {
		s.invalid = err
		s.host.log.Error("a workflow's body asks for what makes no sense, and its run will fail", "run", s.run.String(), "error", err)
	}
	return err
}

// named is a call's name, for errors.
func named(parts ...string) func() string { return func() string { return strings.Join(parts, " ") } }

// key is the key of the strand's next step of that name.
func (st *strand) key(name string) string {
	st.counts[name]++
	if n := st.counts[name]; n > 1 {
		return st.prefix + name + "#" + strconv.Itoa(n)
	}
	return st.prefix + name
}

// ask finds the next recorded step, or decides a new one. The session is locked.
func (st *strand) ask(spec *core.StepSpec, cmd core.Schedule, fn stepFunc) *entry {
	s := st.session
	recorded := s.recorded[st.prefix]
	if e := s.steps[spec.Name]; e != nil && e.step.Kept {
		e.asked = true // found by its key alone: others of that run are made again
		return e
	}
	if st.cursor >= len(recorded) {
		e := s.steps[spec.Name]
		if e == nil {
			e = &entry{key: spec.Name}
			s.steps[spec.Name] = e
		}
		e.step.Spec, e.asked = spec, true
		e.offer(fn)
		cmd.Spec, cmd.Item, cmd.Group = spec, -1, core.NoStep
		s.buffer = append(s.buffer, cmd)
		return e
	}
	e := recorded[st.cursor]
	if was, is := describe(e.step.Spec), describe(spec); was != is {
		s.changed(was, is)
		st.leave()
	}
	st.cursor++
	e.asked = true
	e.offer(fn)
	if fn != nil && !e.closed {
		s.host.engine.Begin(s.run, e.step.ID) // an attempt may wait for it
	}
	return e
}

// offer makes the step's function known to who waits for it.
func (e *entry) offer(fn stepFunc) {
	e.fn = fn
	if e.ready != nil && fn != nil {
		close(e.ready)
		e.ready = nil
	}
}

// describe says what a step is, as far as a changed body is told by it.
func describe(spec *core.StepSpec) string {
	switch spec.Kind {
	case core.KindSleep:
		return fmt.Sprintf("sleep %q", spec.Name)
	case core.KindWait:
		return fmt.Sprintf("wait %q for event %q", spec.Name, spec.Event)
	case core.KindChild:
		return fmt.Sprintf("child %q of workflow %q", spec.Name, spec.Type)
	default:
		if spec.Type == typeLocal {
			return fmt.Sprintf("step %q", spec.Name)
		}
		return fmt.Sprintf("call %q of %q on queue %q", spec.Name, strings.TrimPrefix(spec.Type, handlerType("")), spec.Queue)
	}
}

// replays reports whether the strand is still in what is recorded.
func (st *strand) replays() bool { return st.cursor < len(st.session.recorded[st.prefix]) }

// marked returns a recorded decision of the body's; nil: there is none.
func (st *strand) marked(key string) []byte {
	e := st.session.steps[key]
	if e == nil || !e.mark {
		return nil
	}
	return e.step.Output
}

// mark records a decision.
func (st *strand) mark(key string, value []byte) {
	s := st.session
	spec := &core.StepSpec{Name: key, Def: -1, Type: typeMark}
	e := &entry{key: key, mark: true, closed: true, asked: true}
	e.step.Spec, e.step.Output, e.step.Phase = spec, value, core.StepSucceeded
	s.steps[key] = e
	s.closed++
	s.buffer = append(s.buffer, core.Mark{Spec: spec, Output: value})
}

// body calls the workflow's function and closes the run with what it returns.
func (s *session) body(st *strand) {
	var out []byte
	err := errors.New("the body ended its goroutine instead of returning (runtime.Goexit, or FailNow of a test)")
	defer func() {
		if v := recover(); v != nil {
			err = newPanic(v, debug.Stack())
		}
		s.finish(st, out, err)
	}()
	out, err = s.def.run(st, s.head.Input)
}

func (s *session) finish(st *strand, out []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !st.ends("body", err) {
		return
	}
	c := core.Close{Phase: core.RunSucceeded, Output: out}
	var again *continueError
	if err == nil {
		err = s.host.tooLarge("the result of workflow "+s.def.name, out)
	}
	if s.invalid != nil && (err == nil || errors.As(err, &again)) {
		err, again = s.invalid, nil
	}
	switch {
	case errors.As(err, &again):
		c = core.Close{Phase: core.RunContinued, Output: again.input}
	case err != nil:
		c = closing(err)
	}
	s.buffer = append(s.buffer, c)
	s.running--
	s.flushEnd()
	s.over, s.finished = true, true
	s.cancel()
	stopTimer(s.watch)
	for other := range s.blocked {
		delete(s.blocked, other)
		other.woken <- struct{}{}
	}
	s.host.solved(s.run)
}

// ends takes a strand that returns, with that error, out of its session. It reports false where that does not matter any more, or
// where more is recorded of it. The session is locked.
func (st *strand) ends(what string, err error) bool {
	s := st.session
	delete(s.strands, st)
	if !s.over && st.replays() {
		asked := "the end of the " + what
		if err != nil { // it may be why, such as a result that the code of today cannot read
			asked += " with the error " + strconv.Quote(err.Error())
		}
		s.changed(describe(s.recorded[st.prefix][st.cursor].step.Spec), asked)
	}
	return !s.over
}

// closing is how a run ends whose body returned an error. A step that the run had no time left for ends it as its deadline
// would have, only earlier.
func closing(err error) core.Close {
	var step *StepError
	if errors.As(err, &step) && step.Failure != nil {
		switch step.Failure.Limit {
		case policy.LimitExecution, policy.LimitRun:
			f := *step.Failure
			f.Message = err.Error()
			return core.Close{Phase: core.RunTimedOut, Failure: &f}
		default:
		}
	}
	return core.Close{Phase: core.RunFailed, Failure: failureOf(err)}
}

// flushEnd sends the body's last decisions.
func (s *session) flushEnd() {
	inputs := append(s.ends, core.Commands{Commands: s.buffer})
	s.ends, s.buffer = nil, nil
	stopTimer(s.late)
	s.send(inputs)
}

// overdue ends a session whose body has been in the user's code for longer than the task limit. The goroutine cannot be
// stopped from outside; the body is called again in a new one.
func (s *session) overdue() {
	s.mu.Lock()
	if s.over || s.running == 0 {
		s.mu.Unlock()
		return
	}
	var where []string
	for st := range s.strands {
		if _, waits := s.blocked[st]; !waits {
			if id, ok := st.id.Load().(string); ok {
				where = append(where, id)
			}
		}
	}
	s.stop(&TaskTimeoutError{Run: s.run.String(), Workflow: s.def.name, Limit: s.taskLimit(), Stack: stacks(where)})
	s.mu.Unlock()
}

// stacks returns the stacks of goroutines.
func stacks(ids []string) string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var out []byte
	for part := range bytes.SplitSeq(buf, []byte("\n\n")) {
		for _, id := range ids {
			if bytes.HasPrefix(part, []byte("goroutine "+id+" ")) {
				out = append(append(out, part...), '\n')
			}
		}
	}
	return string(out)
}
