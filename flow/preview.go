package flow

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
)

// Preview is what is known of a step before a run begins. Expressions that need data of the run, such as the output of
// another step, are shown as they are written.
type Preview struct {
	Name    string          `json:"name"`
	Kind    string          `json:"kind"`
	Needs   []string        `json:"needs,omitempty"`
	When    string          `json:"when,omitempty"`    // the condition, as it is written
	Skipped bool            `json:"skipped,omitempty"` // the condition is false already
	ForEach any             `json:"forEach,omitempty"` // its items
	Task    json.RawMessage `json:"task,omitempty"`    // the step's work: a command, a request, a length of time
}

// Preview returns the work of the steps of a run with this input. Errors are those of [Document.CheckInput], and of an
// expression that needs only the input and cannot be evaluated.
func (d *Document) Preview(input []byte) ([]Preview, error) {
	input, err := d.CheckInput(input)
	if err != nil {
		return nil, err
	}
	def, err := d.definition()
	if err != nil {
		return nil, err
	}
	sc := &scope{decider: newDecider(def), run: &core.Run{Input: input}}
	out := make([]Preview, len(d.Steps))
	for i, s := range d.Steps {
		if out[i], err = def.preview(&def.plans[i], s, sc); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (d *definition) preview(p *plan, s *Step, sc *scope) (out Preview, err error) {
	out = Preview{Name: s.Name, Needs: s.Needs, Kind: "loop"}
	if s.Action != nil {
		out.Kind = s.Action.kind()
	}
	if p.when != nil {
		out.When = p.when.Text()
		if !p.when.Needs(expr.VarInput) {
			runs, err := p.when.Truth(sc)
			if err != nil {
				return out, broken(s.Name, p.where(), err)
			}
			out.Skipped = !runs
		}
	}
	if p.list != nil {
		if out.ForEach, err = p.list.Partial(sc, expr.VarInput); err != nil {
			return out, broken(s.Name, p.where(), err)
		}
		if p.axes != nil {
			if items, err := product(p, out.ForEach); err == nil {
				out.ForEach = items // else the axes are known only during the run
			}
		}
	}
	if p.item >= 0 {
		p = &d.plans[p.item]
	}
	template := p.payload
	switch {
	case p.sleep != nil:
		template = p.sleep.amount
	case p.event != nil:
		template = p.event
	}
	if template == nil {
		return out, nil
	}
	task, err := template.Partial(sc, expr.VarInput)
	if err == nil {
		out.Task, err = json.Marshal(task)
	}
	if err != nil {
		return out, broken(s.Name, p.where(), err)
	}
	return out, nil
}
