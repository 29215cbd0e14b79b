package flow

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// ID returns a document's identity: the hash of its bytes. A run keeps the definition it started with.
func ID(src []byte) core.DefinitionID {
	sum := sha256.Sum256(src)
	var id core.DefinitionID
	copy(id[:], sum[:])
	return id
}

// Source returns the text that Parse read; nil for a document that was built in code.
func (d *Document) Source() []byte {
	if d.src == nil {
		return nil
	}
	return []byte(d.src.Text())
}

// Start returns the beginning of a run of the flow: its name, its limits, and the input, which is checked. The caller
// sets the fields that are not in the flow, such as its ID.
func (d *Document) Start(input []byte) (core.Start, error) {
	def, err := d.definition()
	if err != nil {
		return core.Start{}, err
	}
	if input, err = d.CheckInput(input); err != nil {
		return core.Start{}, err
	}
	limits, err := def.limitsIn(input)
	if err != nil {
		return core.Start{}, err
	}
	s := core.Start{Workflow: d.Name, Input: input}
	var deadline *policy.Limit
	s.Execution, s.Run, deadline = limits.bounds()
	if deadline != nil {
		s.ExecutionAt = core.RunLimit{At: deadline.At, Origin: deadline.Origin}
	}
	return s, nil
}

// bounds returns the limits of a chain of runs and of one run, and the deadline of the chain.
func (l RunLimits) bounds() (execution, run, deadline *policy.Limit) {
	execution, run, deadline = l.Execution, l.Run, l.Deadline
	if execution != nil && execution.Removed {
		execution = nil
	}
	if run != nil && run.Removed {
		run = nil
	}
	if deadline != nil && deadline.At == 0 {
		deadline = nil
	}
	return execution, run, deadline
}

// rules returns the document's rules for whole runs, including child runs, which other flows start.
func (d *definition) rules(input []byte) core.RunRules {
	rules := core.RunRules{Retry: d.doc.Retry}
	limits, err := d.limitsIn(input)
	if err != nil {
		return rules // no run starts with such an input
	}
	rules.Execution, rules.Run, rules.Deadline = limits.bounds()
	return rules
}

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
