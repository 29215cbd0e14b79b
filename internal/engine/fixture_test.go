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
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// plan is the kind of workflow that the tests use: steps that run one after the other. If a step fails, the run fails.
type plan struct {
	Name  string     `json:"name"`
	Steps []planStep `json:"steps"`
	Again int        `json:"again,omitempty"` // how many runs a chain of failing runs has
	Wants string     `json:"wants,omitempty"` // the only valid input; empty: any
	Queue string     `json:"queue,omitempty"` // the queue of its runs
	Limit int        `json:"limit,omitempty"` // the concurrency of that queue

	trap func(place string) // called wherever the plan's code runs, so that a test can panic there; may be nil
}

// callTrap calls the trap if there is one.
func (p *plan) callTrap(place string) {
	if p.trap != nil {
		p.trap(place)
	}
}

// checkInput fills in a missing input and refuses an input that the plan does not want.
func (p *plan) checkInput(input []byte) ([]byte, error) {
	p.callTrap("check")
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
	Total    time.Duration `json:"total,omitempty"`   // scheduleToClose
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
			Name: fmt.Sprintf("s%d", i), Def: int32(i), Kind: s.Kind, Queue: s.Queue, Type: s.Type,
			Priority: s.Priority, Event: s.Event, Spread: s.Spread,
			Policy: policy.Policy{
				Retry: &policy.Retry{MaxAttempts: s.Attempts, InitialInterval: s.Backoff, BackoffCoefficient: 1},
			},
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
		if s.Total > 0 {
			s.spec.Policy.ScheduleToClose = &policy.Limit{After: s.Total}
		}
		if s.Queued > 0 {
			s.spec.Policy.ScheduleToStart = &policy.Limit{After: s.Queued}
		}
	}
	return p.coreDefinition(), nil
}

// coreDefinition returns the plan in the form that core runs.
func (p *plan) coreDefinition() *core.Definition {
	def := &core.Definition{NewDecider: func(*core.Run) core.Decider { return p }, CheckInput: p.checkInput}
	if p.Queue != "" {
		def.RunQueue = func([]byte) (core.RunQueue, error) { return core.RunQueue{Name: p.Queue}, nil }
	}
	if p.Limit != 0 {
		def.Queues = map[string]*policy.QueueLimits{p.Queue: {Concurrency: p.Limit}}
	}
	for i := range p.Steps {
		def.Specs = append(def.Specs, &p.Steps[i].spec)
	}
	if p.Again != 0 {
		rules := core.RunRules{Retry: &policy.Retry{MaxAttempts: p.Again, BackoffCoefficient: 1}}
		def.Rules = func([]byte) core.RunRules { return rules }
	}
	return def
}

func (p *plan) Match(*core.Run, *core.Step, string, *policy.Failure, []byte, core.Time) judge.Match {
	return judge.Match{}
}

func (p *plan) Task(_ *core.Run, s *core.Step, _ core.Time) ([]byte, *policy.Failure) {
	p.callTrap("task")
	if s.Spec.Kind == core.KindChild {
		return []byte(p.Steps[s.Spec.Def].Child), nil
	}
	return []byte("{}"), nil
}

func (p *plan) Decide(r *core.Run, _ []core.StepID, now core.Time) []core.Command {
	p.callTrap("decide")
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

// fakeWorkers is a fake of Workers. It answers each task with what act returns.
type fakeWorkers struct {
	mu      sync.Mutex
	slots   int                        // -1: unbounded
	none    string                     // a task type that it does not take
	act     func(core.Task) core.Input // nil, or a nil result: the task goes on
	report  func(core.RunID, core.Input)
	tasks   []core.Task
	revoked []core.Token
	begun   map[core.Token]int // how often each attempt was dispatched
	arrived chan core.Task     // receives each task; nil: none
	instant string             // the type of the tasks that are done on the spot; "": there are none
	did     int                // tasks that were done on the spot
}

func newFakeWorkers(slots int) *fakeWorkers {
	return &fakeWorkers{slots: slots, begun: make(map[core.Token]int)}
}

func (w *fakeWorkers) Slots(_, taskType string) int {
	if w.none == taskType {
		return 0
	}
	return w.slots
}

func (w *fakeWorkers) Dispatch(t core.Task) {
	w.mu.Lock()
	w.tasks = append(w.tasks, t)
	w.begun[t.Token]++
	w.mu.Unlock()
	if w.arrived != nil {
		w.arrived <- t
	}
	if w.act != nil {
		if in := w.act(t); in != nil {
			w.report(t.Token.Run, in)
		}
	}
}

func (w *fakeWorkers) Do(t core.Task) (core.TaskEnded, bool) {
	if w.instant == "" || t.Type != w.instant {
		return core.TaskEnded{}, false
	}
	w.did++
	end, ok := w.act(t).(core.TaskEnded)
	return end, ok
}

func (w *fakeWorkers) Revoke(tok core.Token, _ policy.Kind) {
	w.mu.Lock()
	w.revoked = append(w.revoked, tok)
	w.mu.Unlock()
	w.report(tok.Run, core.TaskStopped{Step: tok.Step, Attempt: tok.Attempt})
}

// dispatched returns the tasks that were dispatched since the last call.
func (w *fakeWorkers) dispatched() []core.Task {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tasks
	w.tasks = nil
	return t
}

func succeed(t core.Task) core.Input {
	return core.TaskEnded{Step: t.Token.Step, Attempt: t.Token.Attempt, Output: []byte(`1`)}
}

func failTask(t core.Task) core.Input {
	failure := &policy.Failure{Kind: policy.KindError, Type: "x", Message: "broken"}
	return core.TaskEnded{Step: t.Token.Step, Attempt: t.Token.Attempt, Failure: failure}
}

// instantWorkers are Workers that report the end of each task at once.
type instantWorkers struct {
	e *Engine
}

func (w *instantWorkers) Do(core.Task) (core.TaskEnded, bool) { return core.TaskEnded{}, false }

func (w *instantWorkers) Slots(string, string) int { return -1 }

func (w *instantWorkers) Dispatch(t core.Task) {
	w.e.Report(t.Token.Run, core.TaskEnded{Step: t.Token.Step, Attempt: t.Token.Attempt})
}

func (w *instantWorkers) Revoke(tok core.Token, _ policy.Kind) {
	w.e.Report(tok.Run, core.TaskStopped{Step: tok.Step, Attempt: tok.Attempt})
}

// rig drives a partition in virtual time, as the loop of an engine does.
type rig struct {
	t       testing.TB
	p       *Partition
	workers *fakeWorkers
	journal *memory.Journal
	now     core.Time
	seed    uint64
	inbox   []report // reports of the workers, which are not handled yet
	plans   map[string]journal.Definition
	kinds   map[string]Kind
	failed  error  // the error of the last failed append
	unknown string // the name of a plan that cannot be compiled
	noSteps string // the name of a plan whose definition has no steps, so that its entries cannot be folded
	crash   bool   // a failed append crashes the process
	trap    func(plan, place string)
	log     *slog.Logger

	services map[string]policy.QueueLimits
	queues   map[string]policy.QueueLimits
	depth    int // MaxDepth
	family   int // MaxFamily
}

const epoch core.Time = 1_700_000_000_000_000

func newRig(t testing.TB, slots int) *rig {
	r := &rig{
		t: t, workers: newFakeWorkers(slots), journal: memory.New(), now: epoch, plans: map[string]journal.Definition{},
	}
	r.workers.report = func(id core.RunID, in core.Input) { r.inbox = append(r.inbox, report{id, in}) }
	r.kinds = map[string]Kind{"plan": {Compile: r.compile, Child: jsonChild(r.resolve)}}
	r.restart()
	return r
}

func (r *rig) config() Config {
	return Config{
		Journal: r.journal, Workers: r.workers, Owner: "test",
		Random: func() uint64 { r.seed++; return r.seed * 0x9e3779b97f4a7c15 },
		Kinds:  r.kinds,
		Log:    r.log, Services: r.services, Queues: r.queues,
		MaxDepth: r.depth, MaxFamily: r.family,
	}
}

func (r *rig) compile(d journal.Definition) (*core.Definition, error) {
	if d.Name == r.unknown {
		return nil, fmt.Errorf("plan %q is not registered here", d.Name)
	}
	def, err := compileTrapped(d, r.trap)
	if d.Name == r.noSteps {
		def.Specs = nil
	}
	return def, err
}

// compileTrapped compiles a plan whose code calls the trap, if there is one.
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

// restart crashes the process and starts it again. What was not durable is lost, and so are the tasks of the workers.
func (r *rig) restart() {
	r.t.Helper()
	r.journal = r.journal.Reopen()
	r.inbox = nil
	r.workers.dispatched()
	r.p = NewPartition(r.config())
	if err := r.p.Open(context.Background(), r.now); err != nil {
		r.t.Fatal(err)
	}
}

// ask gives the partition a call and returns it. If the call changes something, its answer comes with the next commit.
func ask[C Call](r *rig, c C) C {
	r.p.Handle(c, r.now)
	return c
}

func (r *rig) start(p plan, more ...func(*StartRequest)) core.RunID {
	r.t.Helper()
	req := StartRequest{Definition: p.definition(), Start: core.Start{Input: []byte(`null`)}}
	for _, m := range more {
		m(&req)
	}
	c := ask(r, &StartCall{Start: req})
	if c.Err != nil {
		r.t.Fatal(c.Err)
	}
	return c.Answer.Run
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

// round does one round of the loop. It reports whether anything happened.
func (r *rig) round() bool {
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

// settle does rounds until nothing happens any more without time passing.
func (r *rig) settle() {
	r.t.Helper()
	for i := 0; r.round(); i++ {
		if i > 100_000 {
			r.t.Fatal("the partition does not come to rest")
		}
	}
}

// pass lets time pass. It does rounds at each instant at which the partition has something to do.
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

// outcome returns the outcome of a run, and whether the run has ended.
func (r *rig) outcome(id core.RunID) (Outcome, bool) {
	r.t.Helper()
	w := NewWaiter()
	c := &ResultCall{Run: id, Waiter: w}
	done := false
	c.Done = func(error) { done = true }
	ask(r, c)
	r.settle()
	if out, ok := w.Ended(); ok {
		return out, true
	}
	if done && c.Answer.Absent == (core.RunID{}) {
		return c.Answer.Outcome, true
	}
	if c.Answer.Absent != (core.RunID{}) {
		id = c.Answer.Absent
	}
	h, err := r.journal.History(context.Background(), id)
	if err != nil {
		return Outcome{}, false
	}
	s := core.Restore(id, r.definition(h.Entries), h.Entries)
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
		r.t.Fatalf("run %s: ended: %v, phase %s, want %s", id, ok, out.Phase, phase)
	}
}
