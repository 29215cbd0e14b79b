package pawl

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

const (
	// lingerTime is how long a body that waits keeps its goroutines; then it is unwound, and called again when it has
	// something to do.
	lingerTime = 100 * time.Millisecond
	// answerTime is how long the end of an attempt may wait for what the body makes of it, to be one commit with it.
	answerTime = 2 * time.Millisecond
	// againTime is the shortest pause before a body is called again that could not go on.
	againTime = 50 * time.Millisecond
)

// session is one call of a run's body: what is recorded of the run, the strands that execute the body, and the decisions
// on their way to the engine.
//
// A strand is a goroutine of the body. While all of them wait the session is idle; everything they have decided by then
// goes to the engine in one commit, together with the ends of the attempts that woke them.
type session struct {
	host *host
	run  core.RunID

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when the session is of no more use: who waits for it looks for its successor

	mu       sync.Mutex
	def      *definition
	head     *engine.Head // nil: news have not come yet
	steps    map[string]*entry
	byID     map[core.StepID]*entry
	recorded map[string][]*entry // by strand, in the order in which they were decided
	closed   int                 // steps known to be closed
	said     int                 // closed when it was last said that the body waits; -1: never
	running  int                 // strands in the user's code
	tasks    int                 // attempts of local steps
	pending  int                 // decisions under way to the engine

	decider  *engine.Body // whose decisions these are
	buffer   []core.Command
	ends     []core.Input
	over     bool // unwound, or finished
	finished bool // the body returned
	stuck    error
	invalid  error // the first call of the body's that makes no sense
	blocked  map[*strand]struct{}
	strands  map[*strand]struct{} // all that have not ended
	linger   *time.Timer
	late     *time.Timer
	watch    *time.Timer
	versions map[string]int
	quiet    signal   // all strands wait
	wanted   []*entry // local steps whose attempts wait for their function
	held     bool     // no news come for now, and head is nil
}

// entry is a step as the session knows it.
type entry struct {
	key       string
	step      engine.Step
	mark      bool
	closed    bool
	confirmed bool // its end is durable: its instant is known
	asked     bool
	fn        stepFunc
	ready     chan struct{} // closed when fn is set, or the body rests without having asked for it; nil: nobody waits
	changed   signal
}

type stepFunc func(ctx context.Context) ([]byte, error)

// signal is what strands wait for.
type signal struct{ waiting []*strand }

// newSession returns a session that waits for news. The host is locked.
func newSession(h *host, run core.RunID) *session {
	s := &session{
		host: h, run: run, decider: engine.NewBody(h.generation), done: make(chan struct{}), steps: map[string]*entry{}, byID: map[core.StepID]*entry{},
		recorded: map[string][]*entry{}, said: -1, blocked: map[*strand]struct{}{}, strands: map[*strand]struct{}{},
	}
	s.ctx, s.cancel = context.WithCancel(h.ctx)
	return s
}

// take brings news. It reports false where they contradict what the body has seen: it must be called anew.
func (s *session) take(n engine.News) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return (s.finished || s.stuck != nil) && !s.contradicted(n)
	case n.Whole && s.head == nil:
		s.begin(n)
		return true
	case s.head == nil:
		return true // whole news are under way and hold these
	case s.contradicted(n):
		return false
	case n.Whole:
		s.said = -1 // the engine waits to hear that the body waits
	}
	for i := range n.Steps {
		st := &n.Steps[i]
		e := s.known(st)
		if st.Dropped || (e == nil && n.Whole) {
			continue
		}
		s.learn(e, st)
	}
	s.settle()
	return true
}

// contradicted reports whether a step whose end the body has seen did not end so: an operator restarted it, and it may have ended again
// by now. What the body has decided and is on its way may rest on that also where it has come to its end.
func (s *session) contradicted(n engine.News) bool {
	for i := range n.Steps {
		st := &n.Steps[i]
		if e := s.known(st); e != nil && e.confirmed && (st.Phase != e.step.Phase || st.EndedAt != e.step.EndedAt) {
			return true
		}
	}
	return false
}

// known finds what the session knows of a step; nil: nothing.
func (s *session) known(st *engine.Step) *entry {
	if e := s.byID[st.ID]; e != nil {
		return e
	}
	return s.steps[st.Spec.Name]
}

// learn takes in what is known of one step.
func (s *session) learn(e *entry, st *engine.Step) {
	if e == nil {
		e = &entry{key: st.Spec.Name}
		s.steps[e.key] = e
	}
	s.byID[st.ID] = e
	if !st.Phase.Closed() {
		return
	}
	fresh := !e.closed
	e.step, e.closed, e.confirmed = *st, true, true
	if fresh {
		s.closed++
	}
	s.fire(&e.changed)
}

// begin takes in the whole run and calls the body.
func (s *session) begin(n engine.News) {
	def := s.host.definition(n.Head.Workflow)
	if def == nil {
		s.stop(fmt.Errorf("workflow %q is not registered here: pass it to Config.Workflows or Engine.Register", n.Head.Workflow))
		return
	}
	s.def, s.head = def, n.Head
	for i := range n.Steps {
		st := &n.Steps[i]
		if st.Phase.Closed() {
			s.closed++
		}
		if st.Dropped || st.Spec.Hook {
			continue
		}
		e := s.steps[st.Spec.Name]
		if e == nil { // else an attempt of it waits for its function
			e = &entry{key: st.Spec.Name}
			s.steps[e.key] = e
		}
		e.step, e.closed, e.mark = *st, st.Phase.Closed(), st.Spec.Type == typeMark
		e.confirmed = e.closed
		s.byID[st.ID] = e
		if !e.mark && !st.Kept {
			strand := strandOf(e.key)
			s.recorded[strand] = append(s.recorded[strand], e)
		}
	}
	s.launch(&strand{session: s, now: n.Head.StartedAt}, func(st *strand) { s.body(st) })
}

// strandOf is the part of a step's key that names its strand.
func strandOf(key string) string { return key[:strings.LastIndexByte(key, '/')+1] }

// ended takes the successful end of an attempt before it is recorded, so that it and what the body makes of it are one
// commit. It reports whether it took it.
func (s *session) ended(in core.TaskEnded) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[in.Step]
	if s.over || s.head == nil || e == nil || e.closed || in.Failure != nil {
		return false
	}
	e.closed, e.step.Phase, e.step.Output = true, core.StepSucceeded, in.Output
	s.closed++
	s.ends = append(s.ends, in)
	s.fire(&e.changed)
	s.settle()
	if len(s.ends) > 0 {
		s.arm(&s.late, answerTime, s.flushLate)
	}
	return true
}

func (s *session) flushLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.flush()
	}
}

// fire wakes the strands that wait for a signal and have what they wait for.
func (s *session) fire(sig *signal) {
	rest := sig.waiting[:0]
	for _, st := range sig.waiting {
		if _, waits := s.blocked[st]; !waits {
			continue
		}
		if st.until() {
			s.wake(st)
		} else {
			rest = append(rest, st)
		}
	}
	clear(sig.waiting[len(rest):])
	sig.waiting = rest
}

func (s *session) wake(st *strand) {
	delete(s.blocked, st)
	s.run1()
	st.woken <- struct{}{}
}

// run1 counts a strand that enters the user's code.
func (s *session) run1() {
	s.running++
	if s.running == 1 {
		stopTimer(s.linger)
		s.arm(&s.watch, s.taskLimit(), s.overdue)
	}
}

// taskLimit is how long the body may take each time it goes on.
func (s *session) taskLimit() time.Duration {
	if s.def.task != 0 {
		return s.def.task
	}
	return s.host.task
}

// settle follows a change: when all strands wait, what was decided goes out, and after a while the goroutines go.
func (s *session) settle() {
	if s.over || s.head == nil || s.running > 0 {
		return
	}
	if s.fire(&s.quiet); s.running > 0 {
		return
	}
	stopTimer(s.watch)
	s.flush()
	s.giveBack()
	if s.tasks == 0 {
		s.arm(&s.linger, lingerTime, s.release)
	}
}

// flush sends what was decided.
func (s *session) flush() {
	waits := s.running == 0
	if len(s.buffer) == 0 && len(s.ends) == 0 && (!waits || s.closed == s.said) {
		return
	}
	inputs := s.ends
	if waits || len(s.buffer) > 0 {
		inputs = append(inputs, core.Commands{Commands: s.buffer, Waits: waits, Closed: s.closed})
	}
	if waits {
		s.said = s.closed
	}
	s.ends, s.buffer = nil, nil
	stopTimer(s.late)
	s.send(inputs)
}

func (s *session) send(inputs []core.Input) {
	s.pending++
	s.host.engine.Do(s.run, s.decider, inputs, s.answered)
}

// answered hears whether the engine took what was decided. If not, the run is not what the body believes it to be.
func (s *session) answered(err error) {
	s.mu.Lock()
	s.pending--
	if err == nil {
		s.mu.Unlock()
		return
	}
	s.kill()
	s.mu.Unlock()
	s.host.drop(s)
	s.host.later(s.run, againTime)
}

// release unwinds an idle session.
func (s *session) release() {
	s.mu.Lock()
	idle := !s.over && s.running == 0 && s.tasks == 0
	switch {
	case idle && s.pending > 0: // its successor must not decide anew what is under way
		idle = false
		s.arm(&s.linger, lingerTime, s.release)
	case idle:
		s.kill()
	}
	s.mu.Unlock()
	if idle {
		s.host.drop(s)
	}
}

// kill ends the session: its strands end at their next call, running their deferred functions.
func (s *session) kill() {
	select {
	case <-s.done:
		return
	default:
	}
	s.over = true
	s.report()
	close(s.done)
	s.cancel()
	stopTimer(s.linger)
	stopTimer(s.late)
	stopTimer(s.watch)
	for st := range s.blocked {
		delete(s.blocked, st)
		st.woken <- struct{}{}
	}
}

// report hands on the ends of attempts that waited for the body's answer: they happened, whatever becomes of it.
func (s *session) report() {
	for _, in := range s.ends {
		s.host.engine.Report(s.run, in)
	}
	s.ends, s.buffer = nil, nil
}

// stop ends the session because its body cannot go on. It stays known, so that it is not called again at once.
func (s *session) stop(err error) {
	if s.over {
		return
	}
	s.over, s.stuck = true, err
	stopTimer(s.watch)
	stopTimer(s.linger)
	stopTimer(s.late)
	s.report()
	s.giveBack()
	for st := range s.blocked {
		delete(s.blocked, st)
		st.woken <- struct{}{}
	}
	s.host.problem(s, err)
}

// changed ends the session because its body's code no longer decides what is recorded.
func (s *session) changed(recorded, asked string) {
	s.stop(&ChangedError{Run: s.run.String(), Workflow: s.def.name, Recorded: recorded, Asked: asked})
}

func (s *session) arm(t **time.Timer, d time.Duration, f func()) {
	if *t == nil {
		*t = time.AfterFunc(d, f)
		return
	}
	(*t).Reset(d)
}

func stopTimer(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}

// offers reports whether the body has asked for the step in this session, so that its function is known.
func (s *session) offers(step string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.steps[step]
	return e != nil && e.fn != nil
}

// function returns the function of a local step. The body had asked for the step when the attempt started; where it was
// unwound since, it is waited for. The function is nil where the body does not come to the step for now, as after an
// operator had an earlier step made again. False: the session ended first, or ctx is done.
func (s *session) function(ctx context.Context, t core.Task) (stepFunc, bool) {
	s.mu.Lock()
	e := s.steps[t.StepName]
	if e == nil {
		e = &entry{key: t.StepName}
		s.steps[t.StepName] = e
	}
	s.byID[t.Token.Step] = e
	if e.fn == nil && s.rests() {
		s.mu.Unlock()
		return nil, true
	}
	if e.fn == nil && e.ready == nil {
		e.ready = make(chan struct{})
		s.wanted = append(s.wanted, e)
	}
	fn, ready := e.fn, e.ready
	s.tasks++
	s.mu.Unlock()
	if fn != nil {
		return fn, true
	}
	answered := false
	select {
	case <-ready:
		s.mu.Lock()
		fn, answered = e.fn, true
		s.mu.Unlock()
	case <-s.done:
	case <-ctx.Done():
	}
	if fn == nil {
		s.taskOver()
	}
	return fn, answered
}

// rests reports whether the body does not go on until something else happens: all its strands wait, it cannot go on, or
// its run is paused or closing.
func (s *session) rests() bool {
	switch {
	case s.head == nil:
		return s.held || s.stuck != nil
	case s.over:
		return s.stuck != nil
	default:
		return s.running == 0
	}
}

// giveBack tells the attempts that wait for a function that the body has not come to it.
func (s *session) giveBack() {
	for _, e := range s.wanted {
		if e.ready != nil {
			close(e.ready)
			e.ready = nil
		}
	}
	s.wanted = nil
}

// hold says that no news come for now: the run is paused or closing.
func (s *session) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.head == nil {
		s.held = true
		s.giveBack()
	}
}

// taskOver says that an attempt that function was asked for is over.
func (s *session) taskOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks--
	if s.tasks == 0 && s.running == 0 && !s.over { // also where no news come, the run having closed
		s.arm(&s.linger, lingerTime, s.release)
	}
}
