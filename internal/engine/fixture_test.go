package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/journal/memory"
	"github.com/pawl-dev/pawl/policy"
)

// plan is the tests' kind of workflow: steps, one after the other. A step that does not succeed fails the run.
type plan struct {
	Name  string     `json:"name"`
	Steps []planStep `json:"steps"`
	Again int        `json:"again,omitempty"` // attempts of the run
	Wants string     `json:"wants,omitempty"` // the only input it takes

	trap func(place string) // called at each place where the plan's code runs; it may panic
}

// spring calls the trap, where there is one.
func (p *plan) spring(place string) {
	if p.trap != nil {
		p.trap(place)
	}
}

// checkInput fills an input that is left out, and refuses any but the one the plan wants.
func (p *plan) checkInput(input []byte) ([]byte, error) {
	p.spring("check")
	if len(input) == 0 {
		return []byte(p.Wants), nil
	}
	if p.Wants != "" && string(input) != p.Wants {
		return nil, fmt.Errorf("the input is %s, not %s", input, p.Wants)
	}
	return input, nil
}

type planStep struct {
	Kind     core.StepKind `json:"kind"`
	Type     string        `json:"type,omitempty"`
	Queue    string        `json:"queue,omitempty"`
	Priority int32         `json:"priority,omitempty"`
	Sleep    time.Duration `json:"sleep,omitempty"`
	Child    string        `json:"child,omitempty"` // a JSON payload
	Event    string        `json:"event,omitempty"`
	Spread   bool          `json:"spread,omitempty"`
	Attempts int           `json:"attempts,omitempty"`
	Backoff  time.Duration `json:"backoff,omitempty"`
	Timeout  time.Duration `json:"timeout,omitempty"` // startToClose
	Queued   time.Duration `json:"queued,omitempty"`  // scheduleToStart
	Service  string        `json:"service,omitempty"`
	Key      string        `json:"key,omitempty"`

	spec core.StepSpec
}

func task() planStep               { return planStep{Kind: core.KindTask, Type: "noop", Attempts: 1} }
func nap(d time.Duration) planStep { return planStep{Kind: core.KindSleep, Sleep: d} }
func child(payload string) planStep {
	return planStep{Kind: core.KindChild, Child: payload, Attempts: 1}
}

func (s planStep) tries(n int, backoff time.Duration) planStep {
	s.Attempts, s.Backoff = n, backoff
	return s
}

func flow(name string, steps ...planStep) plan { return plan{Name: name, Steps: steps} }

func (p plan) definition() journal.Definition {
	src, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(src)
	return journal.Definition{ID: core.DefinitionID(sum[:16]), Kind: "plan", Name: p.Name, Source: src}
}

// plans are a kind of workflow without child runs.
var plans = map[string]Kind{"plan": {Compile: compilePlan}}

func compilePlan(d journal.Definition) (*core.Definition, error) {
	p := new(plan)
	if err := json.Unmarshal(d.Source, p); err != nil {
		return nil, err
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		s.spec = core.StepSpec{
			Name: fmt.Sprintf("s%d", i), Def: int32(i), Kind: s.Kind, Queue: s.Queue, Type: s.Type, Priority: s.Priority, Event: s.Event, Spread: s.Spread,
			Policy: policy.Policy{Retry: &policy.Retry{MaxAttempts: s.Attempts, InitialInterval: s.Backoff, BackoffCoefficient: 1}},
		}
		if s.Kind != core.KindTask && s.Kind != core.KindChild {
			s.spec.Policy.Retry = nil
		}
		if s.Timeout > 0 {
			s.spec.Policy.StartToClose = &policy.Limit{After: s.Timeout, Retry: true}
		}
		if s.Service != "" {
			s.spec.Share = &core.Share{Service: s.Service, Key: s.Key}
		}
		if s.Queued > 0 {
			s.spec.Policy.ScheduleToStart = &policy.Limit{After: s.Queued}
		}
	}
	return p.asMachine(), nil
}

// asMachine is the plan as the machine sees it.
func (p *plan) asMachine() *core.Definition {
	def := &core.Definition{NewDecider: func(*core.Run) core.Decider { return p }, CheckInput: p.checkInput}
	for i := range p.Steps {
		def.Specs = append(def.Specs, &p.Steps[i].spec)
	}
	if p.Again != 0 {
		rules := core.RunRules{Retry: &policy.Retry{MaxAttempts: p.Again, BackoffCoefficient: 1}}
		def.Rules = func() core.RunRules { return rules }
	}
	return def
}

func (p *plan) Match(*core.Run, *core.Step, string, *policy.Failure, core.Time) policy.Match {
	return policy.Match{}
}

func (p *plan) Task(_ *core.Run, s *core.Step, _ core.Time) ([]byte, *policy.Failure) {
	p.spring("task")
	if s.Spec.Kind == core.KindChild {
		return []byte(p.Steps[s.Spec.Def].Child), nil
	}
	return []byte("{}"), nil
}

func (p *plan) Decide(r *core.Run, _ []core.StepID, now core.Time) []core.Command {
	p.spring("decide")
	if r.Closing != nil {
		return nil
	}
	n := len(r.Steps)
	if n > 0 {
		last := &r.Steps[n-1]
		if !last.Phase.Closed() {
			return nil
		}
		if last.Phase != core.StepSucceeded {
			return []core.Command{core.Close{Phase: core.RunFailed, Failure: last.Failure}}
		}
	}
	if n == len(p.Steps) {
		return []core.Command{core.Close{Phase: core.RunSucceeded, Output: []byte(`"done"`)}}
	}
	s := &p.Steps[n]
	cmd := core.Schedule{Spec: &s.spec, Item: -1, Group: core.NoStep}
	if s.Kind == core.KindSleep {
		cmd.Until = now.Add(s.Sleep)
	}
	return []core.Command{cmd}
}

// crew is a fake of the workers. With act set it answers each task by itself.
type crew struct {
	mu      sync.Mutex
	slots   int    // -1: unbounded
	none    string // a task type that it does not take
	act     func(core.Task) core.Input
	report  func(core.RunID, core.Input)
	tasks   []core.Task
	revoked []core.Token
	begun   map[core.Token]int
	arrived chan core.Task // where set, each task is sent there, too
}

func newCrew(slots int) *crew { return &crew{slots: slots, begun: make(map[core.Token]int)} }

func (c *crew) Slots(_, taskType string) int {
	if c.none == taskType {
		return 0
	}
	return c.slots
}

func (c *crew) Dispatch(t core.Task) {
	c.mu.Lock()
	c.tasks = append(c.tasks, t)
	c.begun[t.Token]++
	c.mu.Unlock()
	if c.arrived != nil {
		c.arrived <- t
	}
	if c.act != nil {
		if in := c.act(t); in != nil {
			c.report(t.Token.Run, in)
		}
	}
}

func (c *crew) Revoke(tok core.Token, _ policy.Kind) {
	c.mu.Lock()
	c.revoked = append(c.revoked, tok)
	c.mu.Unlock()
	c.report(tok.Run, core.TaskStopped{Step: tok.Step, Attempt: tok.Attempt})
}

// took returns the tasks handed over since it was last asked.
func (c *crew) took() []core.Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tasks
	c.tasks = nil
	return t
}

func succeed(t core.Task) core.Input {
	return core.TaskEnded{Step: t.Token.Step, Attempt: t.Token.Attempt, Output: []byte(`1`)}
}

func failTask(t core.Task) core.Input {
	return core.TaskEnded{Step: t.Token.Step, Attempt: t.Token.Attempt, Failure: &policy.Failure{Kind: policy.KindError, Type: "x", Message: "broken"}}
}

// instant is a crew that does each task at once.
type instant struct {
	e *Engine
}

func (w *instant) Slots(string, string) int { return -1 }

func (w *instant) Dispatch(t core.Task) {
	w.e.Report(t.Token.Run, core.TaskEnded{Step: t.Token.Step, Attempt: t.Token.Attempt})
}

func (w *instant) Revoke(tok core.Token, _ policy.Kind) {
	w.e.Report(tok.Run, core.TaskStopped{Step: tok.Step, Attempt: tok.Attempt})
}

// rig drives a partition in virtual time, as the engine would, one thing after the other.
type rig struct {
	t       testing.TB
	p       *Partition
	crew    *crew
	journal *memory.Journal
	now     core.Time
	seed    uint64
	inbox   []report
	plans   map[string]journal.Definition
	kinds   map[string]Kind
	failed  error  // what the last append said
	unknown string // the name of a plan that cannot be compiled
	hollow  string // the name of a plan whose definition lacks its steps, so that entries cannot be folded
	crash   bool   // a failed append is a crash of the process
	trap    func(plan, place string)
	log     *slog.Logger

	services map[string]policy.QueueLimits
}

const epoch core.Time = 1_700_000_000_000_000

func newRig(t testing.TB, slots int) *rig {
	r := &rig{t: t, crew: newCrew(slots), journal: memory.New(), now: epoch, plans: map[string]journal.Definition{}}
	r.crew.report = func(id core.RunID, in core.Input) { r.inbox = append(r.inbox, report{id, in}) }
	r.kinds = map[string]Kind{"plan": {Compile: r.compile, Resolve: r.resolve}}
	r.restart()
	return r
}

func (r *rig) config() Config {
	return Config{
		Journal: r.journal, Workers: r.crew, Owner: "test",
		Random: func() uint64 { r.seed++; return r.seed * 0x9e3779b97f4a7c15 },
		Kinds:  r.kinds,
		Log:    r.log, Services: r.services,
	}
}

func (r *rig) compile(d journal.Definition) (*core.Definition, error) {
	if d.Name == r.unknown {
		return nil, fmt.Errorf("plan %q is not registered here", d.Name)
	}
	def, err := compileTrapped(d, r.trap)
	if d.Name == r.hollow {
		def.Specs = nil
	}
	return def, err
}

// compileTrapped compiles a plan whose code calls the trap, where there is one.
func compileTrapped(d journal.Definition, trap func(plan, place string)) (*core.Definition, error) {
	def, err := compilePlan(d)
	if err == nil && trap != nil {
		p := def.NewDecider(nil).(*plan)
		p.trap = func(place string) { trap(p.Name, place) }
	}
	return def, err
}

func (r *rig) resolve(_ core.DefinitionID, name string) (journal.Definition, error) {
	d, ok := r.plans[name]
	if !ok {
		return d, fmt.Errorf("unknown")
	}
	return d, nil
}

// restart is a crash of the process and its next start: what was not durable is gone, and so are the workers' tasks.
func (r *rig) restart() {
	r.t.Helper()
	r.journal = r.journal.Reopen()
	r.inbox = nil
	r.crew.took()
	r.p = NewPartition(r.config())
	if err := r.p.Open(context.Background(), r.now); err != nil {
		r.t.Fatal(err)
	}
}

// call handles a call and returns it; it is answered once a commit has followed.
func (r *rig) call(c *Call) *Call {
	r.p.Handle(c, r.now)
	return c
}

func (r *rig) start(p plan, more ...func(*StartRequest)) core.RunID {
	r.t.Helper()
	req := StartRequest{Definition: p.definition(), Input: []byte(`null`)}
	for _, m := range more {
		m(&req)
	}
	c := r.call(&Call{Op: CallStart, Start: req})
	if c.Err != nil {
		r.t.Fatal(c.Err)
	}
	return c.Started.Run
}

// commit appends one batch and reports whether there was one.
func (r *rig) commit() bool {
	r.t.Helper()
	b := r.p.Cut(r.now)
	if b == nil {
		return false
	}
	if err := r.journal.Append(context.Background(), b); err != nil {
		r.failed = err
		if r.crash {
			r.restart()
			return true
		}
		r.p.Failed(err)
		if err := r.p.Open(context.Background(), r.now); err != nil {
			r.t.Fatal(err)
		}
		return true
	}
	r.p.Committed(r.now)
	return true
}

// turn does what is to be done at the instant and reports whether there was anything.
func (r *rig) turn() bool {
	before := r.p.now
	n := len(r.inbox)
	reports := r.inbox
	r.inbox = nil
	for _, rep := range reports {
		r.p.Report(rep.run, rep.in, r.now)
	}
	r.p.Refill(r.now)
	more := r.p.Tick(r.now)
	return r.commit() || more || n > 0 || before != r.p.now
}

// settle goes on until nothing is to be done at the instant.
func (r *rig) settle() {
	r.t.Helper()
	for i := 0; r.turn(); i++ {
		if i > 100_000 {
			r.t.Fatal("the partition does not come to rest")
		}
	}
}

// pass lets time pass, stopping at each instant at which the partition wants something.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	end := r.now.Add(d)
	for {
		r.settle()
		next := r.p.Next()
		if next == 0 || next > end {
			break
		}
		r.now = max(next, r.now+1)
	}
	r.now = end
	r.settle()
}

func (r *rig) outcome(id core.RunID) (Outcome, bool) {
	r.t.Helper()
	w := NewWaiter()
	c := &Call{Op: CallResult, Run: id, Waiter: w}
	done := false
	c.Done = func(*Call) { done = true }
	r.call(c)
	r.settle()
	if out, ok := w.Ended(); ok {
		return out, true
	}
	if done && !c.Absent {
		return c.Outcome, true
	}
	h, err := r.journal.History(context.Background(), c.Run)
	if err != nil {
		return Outcome{}, false
	}
	s := core.Restore(c.Run, r.definition(h.Entries), h.Entries)
	return outcomeOf(s), s.Phase.Closed()
}

func (r *rig) definition(entries []core.Entry) *core.Definition {
	w, err := r.p.defs.stored(context.Background(), entries[0].Records[0].(core.RunCreated).Definition)
	if err != nil {
		r.t.Fatal(err)
	}
	return w.def
}

func (r *rig) wantPhase(id core.RunID, phase core.RunPhase) {
	r.t.Helper()
	if out, ok := r.outcome(id); !ok || out.Phase != phase {
		r.t.Fatalf("run %s: ended %v, %s, want %s", id, ok, out.Phase, phase)
	}
}
