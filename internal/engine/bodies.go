package engine

import (
	"errors"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Bodies are workflows whose decisions are made by functions outside the machine. All methods are called by the loop:
// they must not block, and must not call the engine but by Do, Consult, Begin and Report.
type Bodies interface {
	// Consult brings news of a run whose body is to go on, at once: a body touches nothing outside, and what it decides
	// has effects when that is durable.
	Consult(n News)
	// Begins reports whether a task could begin now: that the function it stands for is at hand. Where it is not, the attempt
	// does not start, so that no clock of it runs; Engine.Begin says when it can.
	Begins(run core.RunID, workflow, step, taskType string) bool
	// Forget says that a run is closed durably: its body is of no more use.
	Forget(run core.RunID)
	// Reset says that what was not durable of the runs that live in a partition is void: their bodies are of no more use, and
	// what they have decided since is not taken. Those that have something to do are consulted again. All bodies that are
	// made from now on belong to the generation, which is higher than any before.
	Reset(generation int, lives func(core.RunID) bool)
}

// Body is one call of a run's body. What it decides rests on what it has seen and decided before: once something of it was refused,
// nothing more is taken.
type Body struct {
	generation int
	stale      atomic.Bool
}

// NewBody returns a body of the generation that Bodies.Reset named last, or of the first one, 0.
func NewBody(generation int) *Body { return &Body{generation: generation} }

// Invalidate marks a body as stale: it has acted on a result that was changed. Its pending decisions are refused.
func (b *Body) Invalidate() { b.stale.Store(true) }

// News is what a run's body has to know.
type News struct {
	Run   core.RunID
	Whole bool   // Steps are all of the run's; else those that closed since the last news
	Head  *Head  // with Whole
	Held  bool   // nothing else is told: the run is paused, closing or closed, and its body is not to go on for now
	Steps []Step // their slices are shared and never changed
}

// Head is what a body may know of its run besides the steps.
type Head struct {
	Workflow, WorkflowID, Key string
	Input                     []byte
	CreatedAt, StartedAt      core.Time
	Execution, Deadline       core.RunLimit
	Parent                    core.Parent
	Chain                     core.Chain
}

// Step is a step as a body sees it.
type Step struct {
	ID          core.StepID
	Spec        *core.StepSpec
	Phase       core.StepPhase
	Reason      policy.Reason
	Attempts    int // that used up the budget
	ScheduledAt core.Time
	EndedAt     core.Time
	Output      []byte
	Failure     *policy.Failure
	Dropped     bool
	Kept        bool // taken over from an earlier run
}

// NewsOf reads from a run's state what its body is to know: of the steps that closed, or with nil of all there is.
func NewsOf(s *core.Run, closed []core.StepID) News {
	n := News{Run: s.ID}
	if closed == nil {
		n.Whole = true
		n.Head = &Head{
			Workflow: s.Workflow, WorkflowID: s.WorkflowID, Key: s.Key, Input: s.Input, CreatedAt: s.CreatedAt,
			StartedAt: s.StartedAt, Execution: s.Execution, Deadline: s.Deadline, Parent: s.Parent, Chain: s.Chain,
		}
		n.Steps = make([]Step, len(s.Steps))
		for i := range s.Steps {
			n.Steps[i] = stepNews(&s.Steps[i])
		}
		return n
	}
	n.Steps = make([]Step, len(closed))
	for i, id := range closed {
		n.Steps[i] = stepNews(&s.Steps[id])
	}
	return n
}

func stepNews(s *core.Step) Step {
	return Step{
		ID: s.ID, Spec: s.Spec, Phase: s.Phase, Reason: s.Reason, Attempts: s.Counted, ScheduledAt: s.ScheduledAt,
		EndedAt: s.EndedAt, Output: s.Output, Failure: s.Failure, Dropped: s.Dropped, Kept: s.Kept,
	}
}

// bodyEffect has a run's body consulted, or forgotten once the open batch is durable.
func (p *Partition) bodyEffect(r *run, e core.Effect) {
	if r.kind.Bodies == nil {
		return
	}
	if c, ok := e.(core.Consult); ok {
		p.tell(r, c.Closed)
		return
	}
	eff := effect{run: r.id(), kind: r.kind, eff: e}
	// What recorded nothing waits for what is on its way to the disk, as every answer does.
	if b := p.pipeline.last(); b != nil {
		b.after = append(b.after, eff)
	} else {
		p.carryOut(&eff)
	}
}

// Do lets several inputs happen to one run in one commit, in order. After one that is refused only the ends of attempts are taken,
// for those have happened. The attempts that the inputs end are over for their worker. done is called by the loop, with nil when
// all of it is durable, else with the first refusal; it must not block. It may be nil. Decisions are refused where their body is
// void or of an earlier generation; body is nil where there are none.
func (e *Engine) Do(run core.RunID, body *Body, inputs []core.Input, done func(error)) {
	c := &Call{Op: CallBody, Run: run, Inputs: inputs, Body: body}
	if done != nil {
		c.Done = func(c *Call) { done(c.Err) }
	}
	e = e.of(run)
	if !e.inbox.put(item{call: c}) && done != nil {
		go done(e.closed()) // the caller may hold what done needs
	}
}

// Consult asks for whole news of a run, which come by Bodies.Consult if the run is open.
func (e *Engine) Consult(run core.RunID) {
	e.of(run).inbox.put(item{call: &Call{Op: CallConsult, Run: run}})
}

// Begin says that a step's task, which had to wait for its function, can begin.
func (e *Engine) Begin(run core.RunID, step core.StepID) {
	e.of(run).inbox.put(item{call: &Call{Op: CallBegin, Run: run, Step: step}})
}

// body feeds the inputs of a body to its run.
func (p *Partition) body(c *Call) {
	r, err := p.get(c.Run)
	if err != nil {
		c.Err = failure(c.op(), c.Run.String(), err)
	}
	for _, in := range c.Inputs {
		rep := report{c.Run, in}
		tok, over := rep.token()
		if over {
			p.pipeline.remember(rep)
		}
		if _, decided := in.(core.Commands); decided && c.Err == nil {
			c.Err = p.void(c)
		}
		if r != nil && (over || c.Err == nil) {
			if err := p.advance(r, nil, in); err != nil && c.Err == nil {
				c.Err = refused(c.op(), c.Run, err)
			}
		}
		if over {
			p.tasks.release(tok)
		}
	}
	if c.Err != nil && c.Body != nil {
		c.Body.Invalidate()
	}
	p.reply(c)
}

// void returns why the decisions of a body are not taken.
func (p *Partition) void(c *Call) error {
	switch {
	case c.Body.generation < p.generation:
		return &Error{Code: CodeStale, Op: c.op(), ID: c.Run.String(), Err: errors.New("the body is of before the storage failed")}
	case c.Body.stale.Load():
		return &Error{Code: CodeStale, Op: c.op(), ID: c.Run.String(), Err: errors.New("the body has seen what is no longer so")}
	default:
		return nil
	}
}

// consult answers with whole news.
func (p *Partition) consult(c *Call) {
	r, err := p.get(c.Run)
	if p.temporary(err) {
		return
	}
	if err != nil {
		p.cfg.Log.Warn("a run whose body asks for it cannot be read", "run", c.Run.String(), "error", err)
		return
	}
	p.tellAll(r)
}

// tellAll gives a run's body all there is to know, at once: news of what follows must not pass it.
func (p *Partition) tellAll(r *run) {
	s := r.state
	switch {
	case r.kind.Bodies == nil:
	case s.Phase.Closed(), s.Closing != nil, s.CancelAsked, s.Phase == core.RunPending,
		s.PausedAt != 0 && s.WaitsForBody(): // it would decide what is refused; it is asked when the run goes on
		r.kind.Bodies.Consult(News{Run: s.ID, Held: true})
	default:
		p.tell(r, nil)
	}
}

// tell gives news to a run's body, of the steps that closed, or with nil of all there is.
func (p *Partition) tell(r *run, closed []core.StepID) {
	var news News
	if err := guard("news for its body was made", func() { news = NewsOf(r.state, closed) }); err != nil {
		_ = p.stop(r, err)
		return
	}
	r.kind.Bodies.Consult(news)
}
