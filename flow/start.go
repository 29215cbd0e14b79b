package flow

import (
	"crypto/sha256"

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
