package body

import (
	"context"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// The task types of Go workflows.
const (
	TypeLocal  = "go"      // a function in the body
	TypeHook   = "go-hook" // a function of the definition
	TypeMark   = "mark"    // recorded, never executed
	TypeBranch = "branch"  // recorded where the body begins branches, never executed
	TypeAnswer = "answer"  // recorded where the body answers an update, never executed
)

// OwnTypes returns the types of tasks that only the program with their body can execute.
func OwnTypes() []string { return []string{TypeLocal, TypeHook} }

// Notes reports whether a step of that type only notes what a body has decided: it is nothing that people look for
// among the steps.
func Notes(taskType string) bool {
	return taskType == TypeMark || taskType == TypeBranch || taskType == TypeAnswer
}

// HandlerType returns the task type of a handler. The prefix keeps it apart from the built-in types.
func HandlerType(name string) string { return handlerPrefix + name }

const handlerPrefix = "fn:"

const (
	// IdleTime is how long a body that waits keeps its goroutines. Then it is unwound, and called again when it has
	// something to do.
	IdleTime = 100 * time.Millisecond
	// AttemptTime is the same for a body that waits for its own local step, which runs: calling the body again costs
	// more than a short step, and a long one does not need it. The attempt has its function, and goes on without the
	// body.
	AttemptTime = 5 * time.Second
	// QueuedTime is the same for a body with a local step that waits for a worker. Its function is soon needed, and is
	// nowhere but in this call of the body. If the body were unwound, each free worker would have all waiting bodies
	// called again, to find out whose function it can get.
	QueuedTime = time.Minute
	// AnswerTime is how long the end of an attempt may wait for what the body makes of it, to be one commit with it.
	AnswerTime = 2 * time.Millisecond
	// AgainTime is the pause before a body is called again whose decisions were refused.
	AgainTime = 50 * time.Millisecond
)

// Func is the function of a local step or of a hook. It returns the encoded result.
type Func func(ctx context.Context) ([]byte, error)

// Session is one call of a run's body: what is recorded of the run, what the branches have asked for and wait for,
// and which decisions are on their way to the engine.
type Session struct {
	run       core.RunID
	decider   *engine.Body // the engine's body, which makes these decisions
	taskLimit time.Duration

	head      *engine.Head // nil: the run is not known yet
	held      bool         // and for now no news of it come
	phase     phase
	returned  bool  // the body has returned; it stays so when the session ends
	rehearsed bool  // it is only replayed
	rewound   bool  // an operator has changed what the run has decided
	leased    bool  // its end gives the run back, so it has to outlive attempts that run
	invalid   error // the first call of the body's that makes no sense

	steps    map[string]*Step
	byID     []*Step            // the steps by their ids, which count from 0; nil: not known
	recorded map[string][]*Step // the steps by their branch's prefix, in the order of their decisions; without marks
	unread   int                // how many of those no branch has come to in this call
	released bool               // decisions are not held back, although there are such: see allRead
	closing  []core.Command     // the last decisions of a body that has returned, while decisions are held back
	versions map[string]int     // versions that this call goes by, by the key of the change

	closed    int // steps known to be closed
	announced int // the value of closed when it was last said that the body waits; -1: never
	running   int // branches that are in the user's code, or in line for it
	soon      int // branches that wait for the instant of an end that the session knows
	attempts  int // attempts of local steps that need this session
	queued    int // local steps of this call that wait for a worker
	pending   int // commits on their way to the engine

	waited time.Duration // the length of the idle time so far, once TimerIdle has fired

	offers   []*Update // updates that no branch has yet
	takers   []*Step   // waits for updates
	accepted []*Update // the updates that this call accepted

	commands []core.Command // decided and not sent
	ends     []core.Input   // successful ends of attempts that wait to be sent with what the body makes of them
	branches []*Branch      // all that have not ended
	turn     *Branch        // the branch that has the turn; see order.go
	asking   *Branch        // the branch whose call waits right now, which goes on without being woken
	line     []*Branch      // those that have it next
	turns    int            // how many there were
	limited  int            // the turn with which the task limit began
	arrived  []*Step        // ends that the body has not seen
	seen     core.Seen      // the ends that it has seen since its last decisions
	quiet    Signal         // all branches wait
	stops    bool           // the body has seen that its run stops
	stopped  Signal         // it has
	looking  []*Branch      // branches that wait for conditions of their own code
	progress bool           // a branch has run since those were looked at
	failed   []*Branch      // branches of Go that returned an error
	wanted   []*Step        // local steps whose attempts wait for their functions
	armed    [timers]bool
	ready    Ready
	taken    Ready // the last result of Ready
	dirty    bool  // there is something in ready
}

// phase is how far a session has come.
type phase uint8

const (
	phaseLive     phase = iota // waits for news of the run, or executes the body
	phaseReturned              // the body has returned
	phaseStuck                 // the body cannot go on; it is called again after a pause
	phaseGone                  // the session is of no more use
)

// Step is a step as a session knows it.
type Step struct {
	key       string
	record    engine.Step
	mark      bool    // it only notes a decision of the body's, in no order
	known     bool    // it has ended
	closed    bool    // the body has seen that
	choices   int     // how often Any has returned its result
	told      bool    // its end was recorded when this call began
	confirmed bool    // its end is durable: its instant is known
	asked     bool    // the body has come to it in this call
	follows   bool    // it follows from a step that failed
	cancelled bool    // the body has cancelled it
	refused   bool    // it never began, because its scope or its run had ended; nothing is recorded of it
	queued    bool    // it waits for a worker, who needs its function then
	offer     *Update // the update that the wait may take
	scope     *Scope
	fn        Func
	changed   Signal
}

// NewSession returns a session that waits for news of the run. The generation is the one that Bodies.Reset named
// last.
func NewSession(run core.RunID, generation int) *Session {
	return &Session{
		run: run, decider: engine.NewBody(generation), announced: -1,
		steps: map[string]*Step{}, recorded: map[string][]*Step{},
	}
}

// over reports whether the branches are to leave the body.
func (s *Session) over() bool { return s.phase != phaseLive }

// News takes in what the engine tells of the run.
func (s *Session) News(n engine.News) {
	switch {
	case n.Held:
		s.held = true
		if s.head == nil {
			s.giveBack()
		}
		return
	case s.phase == phaseGone:
		s.change().CallAgain = true // the next session has to hear of it
		return
	case s.asksToStop(n), s.contradicted(n):
		s.Retry()
		return
	case s.over():
		return
	case s.head == nil && n.Whole:
		s.learnAll(n)
		s.change().Start = true
		return
	case s.head == nil:
		return // whole news are on their way, and these are part of them
	case n.Whole:
		s.announced = -1 // the engine waits to hear that the body waits
	}
	for _, record := range inOrder(n.Steps) {
		st := s.find(record)
		if record.Dropped || (st == nil && n.Whole) {
			continue
		}
		s.learn(st, record)
	}
	s.settle()
}

// asksToStop reports whether the news ask the body to stop, which this call of it does not know. It is called again:
// then it learns of it where all that is recorded ends, as every later call does.
func (s *Session) asksToStop(n engine.News) bool {
	return s.head != nil && n.Head != nil && n.Head.Stop != nil && s.head.Stop == nil
}

// contradicted reports whether a step did not end as the body has seen it: an operator has restarted it, and it may
// have ended again by now. This matters for a body that has returned, too: its last decisions, which are still on
// their way, may rest on the old end.
func (s *Session) contradicted(n engine.News) bool {
	for i := range n.Steps {
		record := &n.Steps[i]
		if record.Dropped { // another step may have its key by now
			if s.withID(record.ID) != nil {
				return true
			}
			continue
		}
		st := s.find(record)
		if st != nil && st.confirmed && (record.Phase != st.record.Phase || record.EndedAt != st.record.EndedAt) {
			return true
		}
	}
	return false
}

// find returns what the session knows of a step, nil if it does not know it.
func (s *Session) find(record *engine.Step) *Step {
	if st := s.withID(record.ID); st != nil {
		return st
	}
	return s.steps[record.Spec.Name]
}

// withID returns the step with an id, nil if the session has not heard of the id.
func (s *Session) withID(id core.StepID) *Step {
	if int(id) < len(s.byID) {
		return s.byID[id]
	}
	return nil
}

// know notes the id of a step.
func (s *Session) know(id core.StepID, st *Step) {
	if more := int(id) + 1 - len(s.byID); more > 0 {
		s.byID = append(s.byID, make([]*Step, more)...)
	}
	s.byID[id] = st
}

// step returns the step of a key, and makes it where it is not known.
func (s *Session) step(key string) *Step {
	st := s.steps[key]
	if st == nil {
		st = &Step{key: key}
		s.steps[key] = st
	}
	return st
}

// learn takes in what is recorded of one step; st is nil where the session has not heard of it.
func (s *Session) learn(st *Step, record *engine.Step) {
	if st == nil {
		st = s.step(record.Spec.Name)
	}
	s.know(record.ID, st)
	if !record.Phase.Closed() {
		return
	}
	st.record, st.confirmed = *record, true
	if !st.known {
		arrive(s, st)
	} else {
		s.fire(&st.changed)
	}
}

// learnAll takes in all that is recorded of the run.
func (s *Session) learnAll(n engine.News) {
	s.head = n.Head
	for i := range n.Steps {
		record := &n.Steps[i]
		if record.Phase.Closed() && (record.Dropped || record.Spec.Hook || atOnce(record)) {
			s.closed++
		}
		s.rewound = s.rewound || record.Dropped || record.Kept || record.Restarted
		if record.Dropped || record.Spec.Hook {
			continue
		}
		st := s.step(record.Spec.Name) // it is known where an attempt of it waits for its function
		st.record, st.mark = *record, record.Spec.Type == TypeMark
		switch st.confirmed = record.Phase.Closed(); {
		case !st.confirmed:
		case atOnce(record):
			st.known, st.closed = true, true
		default:
			st.told = true
			arrive(s, st)
		}
		s.know(record.ID, st)
		if !st.mark && !record.Kept {
			prefix := prefixOf(st.key)
			s.recorded[prefix] = append(s.recorded[prefix], st)
			s.unread++
		}
	}
	sortArrived(s)
	s.seen.Ends = n.Head.Ends
}

// prefixOf returns the part of a step's key that names its branch: "items[3]/" of "items[3]/charge".
func prefixOf(key string) string { return key[:strings.LastIndexByte(key, '/')+1] }

// Ended takes the successful end of an attempt before it is recorded, so that it and what the body makes of it are
// one commit. It reports whether it accepted the end; if not, the caller tells the engine.
func (s *Session) Ended(in core.Input) bool {
	end, ok := in.(core.TaskEnded)
	if !ok || end.Failure != nil {
		return false
	}
	st := s.withID(end.Step)
	if s.over() || s.head == nil || st == nil || st.known {
		return false
	}
	st.record.ID, st.record.Phase, st.record.Output = end.Step, core.StepSucceeded, end.Output
	arrive(s, st)
	if s.ends == nil {
		s.ends = make([]core.Input, 0, 2) // room for the end and the body's answer to it
	}
	s.ends = append(s.ends, in)
	s.settle()
	if len(s.ends) > 0 && !s.armed[TimerFlush] {
		s.set(TimerFlush, AnswerTime)
	}
	return true
}

// flush sends what was decided. Where all branches wait, it says so: the run then waits for no decision any more. A
// branch that waits for no more than an instant goes on, so it does not count as one that waits: if the process ended
// before it went on, nobody would call the body again. While decisions are held back it sends the ends alone.
func (s *Session) flush() {
	if s.holds() {
		if held := s.commands; len(s.ends) > 0 {
			s.send(s.ends)
			s.commands = held
		}
		return
	}
	waits := s.running == 0 && s.soon == 0
	if len(s.commands) == 0 && len(s.ends) == 0 && (!waits || s.closed == s.announced) {
		return
	}
	inputs := s.ends
	if waits || len(s.commands) > 0 {
		inputs = append(inputs, s.decision(s.commands, waits))
	}
	if waits {
		s.announced = s.closed
	}
	s.send(inputs)
}

// decision returns an input that carries decisions of the body.
func (s *Session) decision(commands []core.Command, waits bool) core.Commands {
	return core.Commands{
		Commands: commands, Waits: waits, Closed: s.closed, Stopping: s.head.Stop != nil, Seen: tells(s),
	}
}

// send gives the engine a commit. The decisions and ends are part of it.
func (s *Session) send(inputs []core.Input) {
	s.ends, s.commands = nil, nil
	s.stop(TimerFlush)
	r := s.change()
	if len(r.Send) == 0 {
		s.pending++ // one answer comes for each commit
		r.Send = inputs
		return
	}
	r.Send = append(r.Send, inputs...)
}

// Answered tells whether the engine took a commit. Where it did not, the run is not what the body believes it to
// be: the body is called again after a pause.
func (s *Session) Answered(err error) {
	s.pending--
	switch {
	case s.phase == phaseGone:
		return
	case err == nil:
		if !s.armed[TimerIdle] {
			s.rest()
		}
		return
	}
	s.End()
	r := s.change()
	r.CallAgain, r.Pause = true, AgainTime
}

// Fired tells that a timer has fired. Timers that were stopped or set anew since must not be reported.
func (s *Session) Fired(t Timer) {
	s.armed[t] = false
	switch t {
	case TimerTask:
		if overdue(s) {
			s.Stop(Stuck{Why: Overdue, Limit: s.taskLimit})
		}
	case TimerFlush:
		if !s.over() {
			s.flush()
		}
	case TimerIdle:
		leaveMemory(s)
	case TimerRetry:
		s.Retry()
	case TimerTurn: // no session has it
	}
}

// Stop ends the call because the body cannot go on. The session stays known, so that the body is not called again
// at once.
func (s *Session) Stop(why Stuck) {
	if s.over() {
		return
	}
	why.Run = s.run
	if s.head != nil {
		why.Workflow = s.head.Workflow
	}
	s.phase = phaseStuck
	s.change().Stuck = &why
	s.stopTimers()
	s.report()
	s.giveBack()
	s.wakeAll()
}

// RetryAfter says when a stuck body is called again.
func (s *Session) RetryAfter(pause time.Duration) { s.set(TimerRetry, pause) }

// Retry calls the body again at once. Decisions that the engine has not applied yet are refused.
func (s *Session) Retry() {
	if s.phase == phaseGone {
		return
	}
	s.Discard()
	s.change().CallAgain = true
}

// Discard ends a session whose body must not go on. Decisions that the engine has not applied yet are refused.
func (s *Session) Discard() {
	s.decider.Invalidate()
	s.End()
}

// End ends the session. Its branches leave at their next call, and run their deferred functions.
func (s *Session) End() {
	if s.phase == phaseGone {
		return
	}
	s.phase = phaseGone
	s.change().Gone = true
	s.stopTimers()
	s.report()
	s.wakeAll()
}

// report hands on the ends of attempts that wait for the body's answer: they happened, whatever becomes of the body.
func (s *Session) report() {
	if len(s.ends) > 0 {
		s.change().Report = s.ends
	}
	s.ends, s.commands = nil, nil
}
