package engine

import (
	"errors"

	"github.com/pawl-dev/pawl/internal/core"
)

// bodyEffect consults a run's body, or makes the body be forgotten once the open batch is durable.
func (p *Partition) bodyEffect(r *run, e core.Effect) {
	if r.kind.Bodies == nil {
		return
	}
	if c, ok := e.(core.Consult); ok {
		p.sendNews(r, c.Closed)
		return
	}
	eff := effect{run: r.id(), kind: r.kind, eff: e}
	// If this input recorded nothing, the effect waits for the batches that are on their way to the disk.
	if b := p.pipeline.last(); b != nil {
		b.after = append(b.after, eff)
	} else {
		p.carryOut(&eff)
	}
}

// Do gives several inputs to one run, in order and in one commit. After the first refused input, only reports that
// an attempt has ended are taken, because that has happened anyway. The slots of attempts that ended are free
// afterwards.
//
// The loop calls done: with nil when everything is durable, else with the first refusal. done must not block; it may
// be nil.
//
// Decisions are rejected if their body is stale or of an earlier generation. body is nil if the inputs are no
// decisions.
func (e *Engine) Do(run core.RunID, body *Body, inputs []core.Input, done func(error)) {
	c := bodyCalls.get()
	c.Run, c.Inputs, c.Body, c.Done, c.spare = run, inputs, body, done, true
	part := e.within(run)
	if !part.requests.put(request{call: c}) && done != nil {
		go done(part.refusal()) // the caller may hold a lock that done needs
	}
}

// BodyCall gives a run what its body and its tasks report. See Engine.Do.
type BodyCall struct {
	telling
	Run    core.RunID
	Inputs []core.Input
	Body   *Body // the body that made the decisions among Inputs; nil: there are none

	spare bool // nobody uses the call after its answer
}

// bodyCalls are calls of Engine.Do that were answered.
var bodyCalls spares[BodyCall, *BodyCall]

func (c *BodyCall) answer() {
	told := c.Reply
	if c.spare {
		bodyCalls.put(c)
	}
	told.answer()
}

func (c *BodyCall) op() string {
	if c.Body == nil {
		return "report"
	}
	return "body"
}

// Consult asks for whole news of a run. It arrives through Bodies.Consult.
func (e *Engine) Consult(run core.RunID) {
	e.within(run).requests.put(request{call: &ConsultCall{Run: run}})
}

// Begin says that a step's task, which waited for its function, can begin.
func (e *Engine) Begin(run core.RunID, step core.StepID) {
	e.within(run).requests.put(request{call: &BeginCall{Run: run, Step: step}})
}

func (c *BodyCall) do(p *Partition) {
	r, err := p.get(c.Run)
	if err != nil {
		c.Err = failure(c.op(), c.Run.String(), err)
	}
	for _, in := range c.Inputs {
		rep := report{c.Run, in}
		tok, over := rep.token()
		if over {
			p.pipeline.keepReport(rep)
		}
		_, decided := in.(core.Commands)
		if decided && c.Err == nil {
			c.Err = c.checkStale(p.generation)
		}
		if r != nil && (over || c.Err == nil) {
			if err := p.advance(r, nil, in); err != nil && c.Err == nil {
				c.Err = Refused(c.op(), c.Run, err)
			}
		}
		if decided && c.Err == nil {
			p.handling.decided = r
		}
		if over {
			p.tasks.release(tok)
		}
	}
	if c.Err != nil && c.Body != nil {
		c.Body.Invalidate()
	}
	p.pipeline.reply(c)
}

// checkStale returns an error if the decisions of the body must not be taken, in that generation.
func (c *BodyCall) checkStale(generation int) error {
	var why string
	switch {
	case c.Body.generation < generation:
		why = "the body began before the storage failed"
	case c.Body.stale.Load():
		why = "the body has acted on a result that was changed"
	default:
		return nil
	}
	return &Error{Code: CodeStale, Op: c.op(), ID: c.Run.String(), Err: errors.New(why)}
}

// ConsultCall makes the partition send a body the whole news of its run.
type ConsultCall struct {
	telling
	Run core.RunID
}

func (*ConsultCall) op() string { return "body" }

func (c *ConsultCall) do(p *Partition) {
	r, err := p.get(c.Run)
	if p.noteTemporary(err) {
		return
	}
	if err != nil {
		p.cfg.Log.Warn("the run of a body cannot be read", "run", c.Run.String(), "error", err)
		return
	}
	p.sendAllNews(r)
}

// sendAllNews sends a body everything about its run. It is sent at once and does not wait for a batch: otherwise
// later news could arrive first.
func (p *Partition) sendAllNews(r *run) {
	s := r.state
	switch {
	case r.kind.Bodies == nil:
	case s.Phase.Closed(), s.BodyHeld(), s.Phase == core.RunPending,
		s.PausedAt != 0 && s.WaitsForBody(): // the run would refuse its decisions; it is consulted when the run goes on
		r.kind.Bodies.Consult(News{Run: s.ID, Held: true})
	default:
		p.sendNews(r, nil)
	}
}

// sendNews sends a body news of its run: about the steps that closed, or about everything if closed is nil.
func (p *Partition) sendNews(r *run, closed []core.StepID) {
	var news News
	if err := guard("news for its body was made", func() { news = NewsOf(r.state, closed) }); err != nil {
		_ = p.setAsideAfterPanic(r, err)
		return
	}
	if r.kind.Bodies.Consult(news) {
		p.pipeline.open.asked = r
	}
}
