package engine

import (
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

// Consult asks for whole news of a run. It arrives through Bodies.Consult.
func (e *Engine) Consult(run core.RunID) {
	e.within(run).requests.put(request{call: &ConsultCall{Run: run}})
}

// Begin reports that a step's task, which waited for its function, can begin.
func (e *Engine) Begin(run core.RunID, step core.StepID) {
	e.within(run).requests.put(request{call: &BeginCall{Run: run, Step: step}})
}

// ConsultCall makes the partition send a body all the news of its run.
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

// sendNews sends a body news of its run: about the steps that closed, or about everything if closed is nil. A body that
// is asked in writing only learns that there are news.
func (p *Partition) sendNews(r *run, closed []core.StepID) {
	if r.state.Answers() { // its body reads the entries
		r.kind.Bodies.Consult(News{Run: r.id()})
		return
	}
	var news News
	if err := guard("news for its body was made", func() { news = NewsOf(r.state, closed) }); err != nil {
		_ = p.setAsideAfterPanic(r, err)
		return
	}
	if r.kind.Bodies.Consult(news) {
		p.pipeline.open.asked = r
	}
}
