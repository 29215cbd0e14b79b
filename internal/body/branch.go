package body

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// Branch is a line of execution in a body. Its steps are numbered separately from those of other branches, so that
// branches do not disturb each other's keys.
type Branch struct {
	prefix string         // the prefix of the keys of its steps; "" for the body itself
	counts map[string]int // how often each name was used so far
	cursor int            // recorded steps asked for so far
	seen   instant        // the latest end it has seen
	draws  uint64         // random numbers so far
	causes core.Causes    // the causes of its next decision; see causes.go
	scope  *Scope         // the scope in which it began
	scopes int            // scopes it has made so far
	point  core.Point     // its position, for the values that it publishes
	path   []int          // the place in the code where it began; see next
	steps  int            // places within it so far
	undos  map[string]int // how often it has added each name to the list of things to undo
	undoes *Undo          // it takes the list of things to undo; nil if it does not

	choices  int   // how often Any has returned its result
	ownScope bool  // it was begun by Go: the scope is its own
	read     bool  // somebody has waited for its result
	err      error // the error that it returned

	index  int // the index in Session.branches
	state  branchState
	until  func() bool // the condition that it waits for
	busy   Call        // names that, for errors; zero if it runs
	soon   bool        // it waits for the instant of an end that the session knows; see Session.flush
	ended  Signal
	group  *items        // the items of pawl.Map; nil if there is none
	looks  bool          // it has the turn only to look at a condition; see Session.lookAgain
	body   func(*Thread) // the code of it
	thread *Thread       // the shell's side of it; nil before its first turn
}

type branchState uint8

const (
	branchRuns   branchState = iota // it has the turn: it is in the user's code
	branchReady                     // it is in line for the turn
	branchWaits                     // the branch waits until a signal
	branchLeaves                    // it was woken in a session that is over
	branchEnded
)

// Signal is a condition for which branches wait: it is fired whenever the condition may have become true.
type Signal struct{ waiting []*Branch }

// Start calls the body: it returns its first branch, which runs. The limit is how long the body may take each time it
// goes on.
func (s *Session) Start(limit time.Duration) *Branch {
	s.taskLimit = limit
	return s.begin(&Branch{seen: instant{now: s.head.StartedAt}})
}

// Spawn begins a branch beside its parent, as the parent has decided.
func (s *Session) Spawn(parent *Branch, key string) *Branch {
	b := &Branch{prefix: key + "/", causes: copied(parent.causes), path: parent.next()}
	b.seen.joins(&parent.seen)
	return s.begin(b)
}

func (s *Session) begin(b *Branch) *Branch {
	b.counts, b.index = map[string]int{}, len(s.branches)
	s.branches = append(s.branches, b)
	s.wake(b)
	return b
}

// Key returns the key of the branch's next step of that name.
func (b *Branch) Key(name string) string {
	b.counts[name]++
	if n := b.counts[name]; n > 1 {
		return b.prefix + name + "#" + strconv.Itoa(n)
	}
	return b.prefix + name
}

// Replays reports whether the branch is still within the recorded decisions.
func (s *Session) Replays(b *Branch) bool {
	return len(s.recorded) > 0 && b.cursor < len(s.recorded[b.prefix])
}

// Ask finds the branch's next recorded step, or decides a new one, in a scope. It returns nil if something else is
// recorded; the session is stuck then.
func (s *Session) Ask(b *Branch, sc *Scope, cmd core.Schedule, fn Func) *Step {
	spec := cmd.Spec
	spec.Detached = sc.isDetached()
	if st := s.steps[spec.Name]; st != nil && st.record.Kept {
		st.asked = true // found by its key alone, since others of the earlier run are made again
		b.moveOn(spec.Name)
		return st
	}
	if st := s.refusal(b, sc, spec); st != nil {
		st.scope = sc
		b.causes = joined(b.causes, cancelsOf(sc)) // its next decision was next because this step did not begin
		return st
	}
	if !s.Replays(b) {
		st := s.step(spec.Name)
		st.record.Spec, st.asked, st.scope = spec, true, sc
		b.moveOn(spec.Name)
		s.offer(st, fn)
		s.enqueue(st)
		cmd.Item, cmd.Group, cmd.Causes = -1, core.NoStep, copied(b.causes)
		b.decided(st)
		s.commands = append(s.commands, cmd)
		return st
	}
	st := s.next(b)
	if !sameStep(st.record.Spec, spec) {
		s.changed(Describe(st.record.Spec), Describe(spec))
		return nil
	}
	st.scope = sc
	b.decided(st)
	s.offer(st, fn)
	if sc.isCancelled() { // another branch has cancelled the scope before this one reached the step again
		s.CancelStep(st)
	}
	s.follow(b)
	if fn != nil && !st.known { // an attempt may wait for it
		r := s.change()
		r.Begin = append(r.Begin, st.record.ID)
		if st.record.Phase == core.StepScheduled {
			s.enqueue(st)
		}
	}
	return st
}

// offer makes a step's function known.
func (s *Session) offer(st *Step, fn Func) {
	st.fn = fn
	if fn != nil && slices.Contains(s.wanted, st) {
		s.wanted = slices.DeleteFunc(s.wanted, func(other *Step) bool { return other == st })
		r := s.change()
		r.Found = append(r.Found, st)
	}
}

// sameStep reports whether two steps are the same for the detection of changed code: whether Describe gives the same
// for both.
func sameStep(a, b *core.StepSpec) bool {
	if a.Kind != b.Kind || a.Name != b.Name {
		return false
	}
	switch a.Kind {
	case core.KindSleep:
		return true
	case core.KindWait:
		return a.Event == b.Event && a.Update == b.Update
	case core.KindChild:
		return a.Type == b.Type
	default:
		return a.Type == b.Type && (a.Type == TypeLocal || a.Queue == b.Queue)
	}
}

// Describe names a step for the detection of changed code.
func Describe(spec *core.StepSpec) string {
	switch spec.Kind {
	case core.KindSleep:
		return fmt.Sprintf("sleep %q", spec.Name)
	case core.KindWait:
		if spec.Update != "" {
			return fmt.Sprintf("wait %q for update %q", spec.Name, spec.Update)
		}
		return fmt.Sprintf("wait %q for event %q", spec.Name, spec.Event)
	case core.KindChild:
		return fmt.Sprintf("child %q of workflow %q", spec.Name, spec.Type)
	default:
		if spec.Type == TypeBranch {
			return branchText(spec.Name)
		}
		if spec.Type == TypeAnswer {
			return answerText(spec.Name)
		}
		if spec.Type == TypeLocal {
			return fmt.Sprintf("step %q", spec.Name)
		}
		return fmt.Sprintf("call %q of %q on queue %q", spec.Name, strings.TrimPrefix(spec.Type, handlerPrefix),
			spec.Queue)
	}
}

// changed ends the call because the code no longer makes the recorded decisions.
func (s *Session) changed(recorded, asked string) {
	s.Stop(Stuck{Why: Changed, Recorded: recorded, Asked: asked})
}

// Marked returns a recorded decision of the body, nil if there is none.
func (s *Session) Marked(key string) []byte {
	st := s.steps[key]
	if st == nil || !st.mark {
		return nil
	}
	return st.record.Output
}

// Mark records a decision that has no place in an order.
func (s *Session) Mark(key string, value []byte, causes core.Causes) {
	s.note(TypeMark, key, core.Mark{Output: value, Causes: causes})
}

// note records a decision that follows from some failures.
func (s *Session) note(taskType, key string, m core.Mark) {
	m.Spec = s.noted(taskType, key, m.Output)
	s.commands = append(s.commands, m)
}

// noted makes a decision known that is about to be recorded.
func (s *Session) noted(taskType, key string, value []byte) *core.StepSpec {
	spec := &core.StepSpec{Name: key, Def: -1, Type: taskType}
	st := &Step{key: key, mark: taskType == TypeMark, known: true, closed: true, asked: true}
	st.record.Spec, st.record.Output, st.record.Phase = spec, value, core.StepSucceeded
	s.steps[key] = st
	s.closed++
	return spec
}

// version returns what the run goes by, and decides it where nothing has. A run that was beyond this point before the
// change was known goes by the oldest version, others by the newest.
func (s *Session) version(b *Branch, key string, oldest, newest int) int {
	v, ok := s.versions[key]
	if ok {
		return v
	}
	if value := s.Marked(key); value != nil {
		v, _ = strconv.Atoi(string(value))
	} else if s.Replays(b) {
		v = oldest
	} else {
		v = newest
		s.Mark(key, []byte(strconv.Itoa(v)), core.Causes{}) // the whole run depends on it, so no retry drops it
	}
	if s.versions == nil {
		s.versions = map[string]int{}
	}
	s.versions[key] = v
	s.fire(&s.quiet)
	return v
}

// versionKnown reports whether it is decided what the run goes by.
func (s *Session) versionKnown(key string) bool {
	_, ok := s.versions[key]
	return ok || s.Marked(key) != nil
}

// Wait makes the branch wait until a condition holds. One of the signals fires whenever it may have become true. It
// reports whether the branch has to be stopped until Ready.Wake names it; otherwise it goes on at once.
func (s *Session) Wait(b *Branch, what Call, until func() bool, on ...*Signal) bool {
	if s.over() || until() {
		return false
	}
	b.state, b.until, b.busy = branchWaits, until, what
	for _, sig := range on {
		sig.waiting = append(sig.waiting, b)
	}
	s.running--
	if b.soon { // nothing else may come between: a call that repeats this does not wait
		s.flush()
		return true
	}
	s.asking = b
	pass(s)
	s.asking = nil
	// other branches compute: they may decide more before this goes out
	if len(s.commands) > 0 && !s.armed[TimerFlush] && !s.holds() && !s.over() {
		s.set(TimerFlush, AnswerTime)
	}
	if b.state == branchWaits || b.state == branchReady {
		return true
	}
	b.busy = Call{}
	return false
}

// expect notes that a branch is about to wait for the instant of an end that the session knows; see flush.
func (s *Session) expect(b *Branch) {
	b.soon = true
	s.soon++
}

// fire wakes the branches that wait for a signal and have what they wait for.
func (s *Session) fire(sig *Signal) {
	rest := sig.waiting[:0]
	for _, b := range sig.waiting {
		if b.state != branchWaits {
			continue // something else has woken it
		}
		if b.until() {
			s.wake(b)
		} else {
			rest = append(rest, b)
		}
	}
	clear(sig.waiting[len(rest):])
	sig.waiting = rest
}

// Outcome is how a branch has returned. The error's text was made before, since that calls the user's code.
type Outcome struct {
	Failed bool
	Text   string
	Err    error // a branch's
}

// OutcomeOf returns the outcome of a branch that returned err.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Outcome{}
	}
	return Outcome{Failed: true, Text: err.Error(), Err: err}
}

// EndBranch reports that a branch has returned.
func (s *Session) EndBranch(b *Branch, out Outcome) {
	if !s.takeOut(b, "branch", out) {
		return
	}
	if b.err = out.Err; b.err != nil && b.ownScope {
		s.failed = append(s.failed, b)
	}
	s.fire(&b.ended)
	if g := b.group; g != nil {
		g.ended++
		g.failed = g.failed || out.Failed
		g.causes = joined(g.causes, b.causes)
		g.seen.joins(&b.seen)
		s.fire(&g.changed)
	}
	s.running--
	ended(s, b)
}

// ended passes the turn on of a branch that has ended.
func ended(s *Session, b *Branch) {
	if s.turn == b || s.turn == nil {
		pass(s)
	}
}

// Return reports that the body has returned, and how that closes the run. While decisions are held back, so is this
// one.
func (s *Session) Return(b *Branch, out Outcome, c core.Close) {
	if !s.takeOut(b, "body", out) {
		return
	}
	s.running--
	s.closing, s.commands = append(s.commands, c), nil
	switch {
	case s.holds():
		ended(s, b)
	case s.running > 0 || repeatsCancels(s):
		s.closeRun()
	default: // it is stuck
	}
}

// closeRun sends the result of the body, with the decisions before it.
func (s *Session) closeRun() {
	s.send(append(s.ends, s.decision(s.closing, false)))
	s.closing, s.phase, s.returned = nil, phaseReturned, true
	s.stopTimers()
	s.wakeAll()
	s.change().Returned = true
}

// takeOut removes a branch that returns from the session. It returns false if the return no longer matters, or if more
// is recorded of the branch than it has asked for.
func (s *Session) takeOut(b *Branch, what string, out Outcome) bool {
	last := len(s.branches) - 1
	s.branches[b.index] = s.branches[last]
	s.branches[b.index].index = b.index
	s.branches[last] = nil
	s.branches = s.branches[:last]
	if b.state == branchWaits { // another goroutine waits in the branch's name: it leaves
		s.running++
		r := s.change()
		r.Wake = append(r.Wake, b)
		if s.invalid == nil {
			s.invalid = fmt.Errorf("pawl: the %s returned while %s was waited for by another goroutine: begin it with "+
				"pawl.Go instead of go: %w", what, b.busy, ErrNested)
		}
	}
	b.state = branchEnded
	if !s.over() && s.Replays(b) {
		asked := "the end of the " + what
		if out.Failed { // it may be the reason, such as a result that today's code cannot read
			asked += " with the error " + strconv.Quote(out.Text)
		}
		s.changed(Describe(s.recorded[b.prefix][b.cursor].record.Spec), asked)
	}
	if s.over() {
		left(s, b)
	}
	return !s.over()
}
