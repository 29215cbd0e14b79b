package lease

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/policy"
)

// KeeperConfig configures a keeper.
type KeeperConfig struct {
	// Documents store the descriptions of workflows, so that runs can be started while no process serves them. nil:
	// they are kept until the process ends.
	Documents journal.Documents
	// Silence is how long a holder may be silent before its leases end and its attempts are lost. Default 10s: what a
	// body may take by default.
	Silence time.Duration
	Now     func() core.Time // the engine's clock; required
	Log     *slog.Logger     // nil if nothing is logged
}

// Keeper leases runs to the processes that serve their workflows. For an engine it is the bodies of a kind, and the
// workers of their local steps and hooks.
type Keeper struct {
	kind.Base // the processes execute the steps, and have to clean up after them

	cfg    KeeperConfig
	engine body.EngineCalls
	over   chan struct{} // closed by Drain

	mu         sync.Mutex
	workflows  map[string]*known
	holders    map[string]*holder
	leases     map[core.RunID]*lease
	wanting    map[core.RunID]*holder // runs whose attempts need a call of the body, for the next lease
	waiting    map[core.RunID]string  // the workflows of runs that wait for a holder
	problems   map[core.RunID]error
	tasks      map[core.Token]*task
	claims     map[core.Token]claim    // the claims of attempts that are about to start
	asked      map[core.RunID][]*asked // updates that callers wait for
	last       uint64                  // number of a lease
	joins      int
	generation int
	drained    bool
}

var (
	_ engine.Bodies = (*Keeper)(nil)
	_ slots.Placed  = (*Keeper)(nil)
	_ api.Bodies    = (*Keeper)(nil)
)

// known is a workflow that a process serves or has served.
type known struct {
	Served
	body *body.Function
}

// lease is one call of a run's body, by a holder.
type lease struct {
	number uint64
	holder *holder
	body   *engine.Body
	sent   int                    // news and updates
	ended  map[core.StepID]end    // steps, as the body learned of them
	named  map[core.StepID]string // recorded local steps that had not ended when it began
	ready  map[string]bool        // local steps whose functions the call of the body has
}

// end is how a step ended.
type end struct {
	phase core.StepPhase
	at    core.Time
}

// task is an attempt in the hands of a holder.
type task struct {
	holder  *holder
	slot    claim
	revoked bool
}

// NewKeeper returns a keeper. Attach it to its engine before that is opened, and load what is stored with Load.
func NewKeeper(cfg KeeperConfig) *Keeper {
	if cfg.Silence <= 0 {
		cfg.Silence = Silence
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Keeper{
		cfg: cfg, over: make(chan struct{}), workflows: map[string]*known{}, holders: map[string]*holder{},
		leases: map[core.RunID]*lease{}, wanting: map[core.RunID]*holder{}, waiting: map[core.RunID]string{},
		problems: map[core.RunID]error{}, tasks: map[core.Token]*task{}, claims: map[core.Token]claim{},
		asked: map[core.RunID][]*asked{},
	}
}

// Attach gives the keeper its engine.
func (k *Keeper) Attach(e body.EngineCalls) { k.engine = e }

// Compile makes the definition of a workflow that is a Go function.
func (k *Keeper) Compile(d journal.Definition) (*core.Definition, error) {
	return body.Definition(func() *body.Function { return k.workflow(d.Name) }), nil
}

func (k *Keeper) workflow(name string) *body.Function {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.workflows[name]; w != nil {
		return w.body
	}
	return nil
}

// Find returns the definition of a workflow that a process serves or has served. Errors: CodeNotFound.
func (k *Keeper) Find(name string) (journal.Definition, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.workflows[name]; w != nil {
		return w.Definition, nil
	}
	return journal.Definition{}, &api.Error{
		Code: api.CodeNotFound, Message: fmt.Sprintf("no program has served a workflow %q here", name),
		Hint: "start the program that serves it with pawlhttp.Serve",
	}
}

// FindStored works as Find, and also knows what another process has stored since this one has read it.
func (k *Keeper) FindStored(name string) (journal.Definition, error) {
	d, err := k.Find(name)
	if err == nil || k.cfg.Documents == nil {
		return d, err
	}
	if err := k.Load(context.Background()); err != nil {
		return journal.Definition{}, err
	}
	return k.Find(name)
}

// Consult implements engine.Bodies. The decisions of another process take longer than a batch waits.
func (k *Keeper) Consult(n engine.News) (decides bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.leases[n.Run]
	switch {
	case n.Held && l == nil:
		delete(k.waiting, n.Run)
		k.tellHeld(n.Run)
	case n.Held:
		l.holder.tell(down{Kind: downHeld, Run: n.Run, Lease: l.number})
	case l == nil:
		k.begin(n)
	case l.contradicted(&n):
		k.end(n.Run, l)
		k.begin(n)
	default:
		l.learn(&n)
		l.sent++
		l.holder.tell(down{Kind: downNews, Run: n.Run, Lease: l.number, News: &n})
	}
	return false
}

// tellHeld tells the holder that wants a call of the body that there is none for now.
func (k *Keeper) tellHeld(run core.RunID) {
	if h := k.wanting[run]; h != nil {
		h.tell(down{Kind: downHeld, Run: run})
		delete(k.wanting, run)
	}
}

// begin begins a lease, with whole news.
func (k *Keeper) begin(n engine.News) {
	if !n.Whole {
		k.engine.Consult(n.Run)
		return
	}
	h := k.wanting[n.Run]
	delete(k.wanting, n.Run)
	if h == nil || h.leaving || !h.serves[n.Head.Workflow] {
		h = k.choose(n.Head.Workflow)
	}
	if h == nil {
		k.waiting[n.Run] = n.Head.Workflow
		return
	}
	delete(k.waiting, n.Run)
	k.last++
	l := &lease{
		number: k.last, holder: h, body: engine.NewBody(k.generation), sent: 1, ended: map[core.StepID]end{},
		named: map[core.StepID]string{}, ready: map[string]bool{},
	}
	l.learn(&n)
	k.leases[n.Run] = l
	h.leases++
	h.tell(down{Kind: downBegin, Run: n.Run, Lease: l.number, News: &n})
	for _, a := range k.asked[n.Run] {
		l.offer(a)
	}
}

// choose returns the holder of a workflow that has the fewest leases, or nil if no process serves it.
func (k *Keeper) choose(workflow string) (best *holder) {
	for _, h := range k.holders {
		if h.leaving || !h.serves[workflow] {
			continue
		}
		if best == nil || h.leases < best.leases || h.leases == best.leases && h.number < best.number {
			best = h
		}
	}
	return best
}

// end ends a lease. Decisions that have not been taken are refused.
func (k *Keeper) end(run core.RunID, l *lease) {
	l.body.Invalidate()
	l.holder.leases--
	delete(k.leases, run)
	l.holder.tell(down{Kind: downEnd, Run: run, Lease: l.number})
}

// learn notes the news that are sent to the body.
func (l *lease) learn(n *engine.News) {
	for i := range n.Steps {
		s := &n.Steps[i]
		if s.Phase.Closed() {
			l.ended[s.ID] = end{s.Phase, s.EndedAt}
		} else if s.Spec.Type == body.TypeLocal {
			l.named[s.ID] = s.Spec.Name
		}
	}
}

// contradicted reports whether a step did not end as the body has learned. The body would find that itself, but its
// decisions before it learns of that must not be taken.
func (l *lease) contradicted(n *engine.News) bool {
	for i := range n.Steps {
		s := &n.Steps[i]
		if before, told := l.ended[s.ID]; told && (s.Dropped || before != end{s.Phase, s.EndedAt}) {
			return true
		}
	}
	return false
}

func (k *Keeper) CanBegin(run core.RunID, workflow, step, taskType string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch taskType {
	case body.TypeHook:
		return k.choose(workflow) != nil
	case body.TypeLocal:
	default:
		return true
	}
	if l := k.leases[run]; l != nil {
		return l.ready[step]
	}
	if k.choose(workflow) == nil {
		k.waiting[run] = workflow
		return false
	}
	k.engine.Consult(run) // the body is called, and reports when it reaches the step
	return false
}

func (k *Keeper) Forget(run core.RunID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.leases[run]; l != nil {
		k.end(run, l)
	}
	k.tellHeld(run)
	k.lookAgain(run)
	delete(k.waiting, run)
	delete(k.problems, run)
}

func (k *Keeper) Reset(generation int, lives func(core.RunID) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.generation = max(k.generation, generation)
	for run, l := range k.leases {
		if lives(run) {
			k.end(run, l)
		}
	}
	for run := range k.waiting {
		if lives(run) {
			delete(k.waiting, run)
		}
	}
	for tok := range k.claims {
		if lives(tok.Run) { // its start was not saved
			k.unclaim(tok)
		}
	}
	for run := range k.asked {
		if lives(run) {
			k.lookAgain(run)
		}
	}
}

// Problems returns why bodies cannot go on, by run.
func (k *Keeper) Problems() map[core.RunID]error {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make(map[core.RunID]error, len(k.problems)+len(k.waiting))
	for run, workflow := range k.waiting {
		all[run] = fmt.Errorf("no process serves workflow %q: start a program that does so with pawlhttp.Serve",
			workflow)
	}
	for run, err := range k.problems {
		all[run] = err
	}
	return all
}

func (k *Keeper) Slots(_, taskType string) int {
	if taskType != body.TypeLocal && taskType != body.TypeHook {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, h := range k.holders {
		if !h.leaving {
			n += h.slots
		}
	}
	return n
}

// Dispatch implements slots.Workers: the attempt goes to where the run's body is, a hook to anybody who has it.
func (k *Keeper) Dispatch(t core.Task) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.place(t.Token.Run, t.Workflow, t.Type)
	if c, ok := k.claims[t.Token]; ok && t.Type == body.TypeHook {
		h = c.holder
	}
	if h == nil {
		k.unclaim(t.Token)
		k.engine.Report(t.Token.Run, core.TaskEnded{
			Step: t.Token.Step, Attempt: t.Token.Attempt, Failure: &policy.Failure{
				Kind: policy.KindLost, Type: core.TypeNotBegun, Message: "the process that had the function has gone",
			},
		})
		return
	}
	k.tasks[t.Token] = &task{holder: h, slot: k.takeSlot(t.Token, h, t.Type)}
	d := down{Kind: downTask, Run: t.Token.Run, Task: &t}
	if t.Deadline != 0 {
		d.Left = max(t.Deadline.Sub(k.cfg.Now()), time.Microsecond)
	}
	h.tell(d)
}

func (k *Keeper) Revoke(tok core.Token, why policy.Kind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.tasks[tok]; t != nil {
		t.revoked = true
		t.holder.tell(down{Kind: downRevoke, Run: tok.Run, Token: tok, Why: why})
		return
	}
	k.engine.Report(tok.Run, core.TaskStopped{Step: tok.Step, Attempt: tok.Attempt})
}

// Drain releases all holders that wait for news, and gives them no more. What they decide is still taken.
func (k *Keeper) Drain() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.drained {
		return
	}
	k.drained = true
	close(k.over)
	for _, h := range k.holders {
		h.alarm.Stop()
	}
	for _, all := range k.asked {
		for _, a := range all {
			close(a.again)
		}
	}
}

// errDrained answers holders when the server stops.
var errDrained = &api.Error{
	Code: api.CodeClosed, Op: "serve", Message: "the server stops", Hint: "ask again when it runs again",
}

// Load reads the stored descriptions of workflows.
func (k *Keeper) Load(ctx context.Context) error {
	if k.cfg.Documents == nil {
		return nil
	}
	for from := documentPrefix; ; {
		found, err := k.cfg.Documents.FindDocuments(ctx, from, documentEnd, false, documentsAtOnce)
		if err != nil {
			return err
		}
		for _, d := range found {
			w, err := decodeStored(d.Value)
			if err != nil {
				return fmt.Errorf("the document %s: %w", d.Key, err)
			}
			b, err := w.body()
			if err != nil {
				return fmt.Errorf("the document %s: %w", d.Key, err)
			}
			k.mu.Lock()
			if k.workflows[w.Definition.Name] == nil {
				k.workflows[w.Definition.Name] = &known{w, b}
			}
			k.mu.Unlock()
			from = d.Key + "\x00"
		}
		if len(found) < documentsAtOnce {
			return nil
		}
	}
}
