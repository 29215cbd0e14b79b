package flow

import (
	"fmt"
	"slices"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/cron"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// definition is a compiled document, from which its [core.Definition] is made. It is immutable and shared by all runs.
//
// Ordinals number the steps in the order of the document, then the items of each forEach, then the hooks. A step with
// forEach has two: one for the group, whose state is the step's, and one for its items.
type definition struct {
	doc      *Document
	language *expr.Language
	steps    int32 // ordinals below are steps
	plans    []plan
	byName   map[string]int32       // steps and hooks by name
	stages   [onWarning + 1][]int32 // hooks
	output   *expr.Template
	input    *jsonschema.Schema       // nil: the flow has none
	takes    *expr.Shape              // the keys that the input of a flow without a schema may have; nil: any input
	whens    map[string]*expr.Program // retry conditions
	amounts  []amount                 // the limits of a run that its input gives
	chain    *cron.Timetable          // nil: none
	queueKey *expr.Template           // the key of the runs in their queue; nil if it has none
	refers   map[string]bool          // the secrets and variables that steps refer to, as referTo names them
	recalls  bool                     // a successful run sends a notice that the one before failed
	machine  *core.Definition         // the document as the machine sees it
}

// plan holds the interpreter's data of one ordinal.
type plan struct {
	spec       *core.StepSpec
	step       *Step  // as it is written
	place      string // where it is
	needs      []int32
	dependents []int32
	when       *expr.Program
	trigger    string
	tolerates  []Ending
	skipped    bool     // maxAttempts is 0
	notices    []string // the events of which a notifying step sends notices

	// Only for steps with forEach.
	item        int32 // the ordinal of the items, or -1
	group       int32 // the ordinal of an item's forEach
	list        *expr.Template
	axes        []string       // the axes of a matrix; nil: the list is one
	itemName    *expr.Template // nil: the text of the item
	concurrency int

	// Only for steps with each, and for loops.
	isLoop    bool
	loop      int32   // the loop whose items the step has, or -1
	path      []int32 // only of a loop: -1 for the run, the loops around it and itself
	tree      []int32 // only of a loop: itself, and the steps inside
	members   []int32 // only of a loop: the steps inside it that are in no loop inside it
	common    []int32 // the innermost loop around both, or -1, by need
	more      *expr.Template
	moreNeeds []int32
	feeds     []int32 // loops whose more uses the step

	amounts []amount       // the limits that the run gives
	key     *expr.Template // the key of limits for each key; nil: all steps have the same
	payload *expr.Template
	refers  bool // the payload has placeholders
	sleep   *sleepPlan
	event   *expr.Template   // nil: the spec has it
	any     []*expr.Template // the events of which a wait takes the first; nil: the spec has them
	watches []int32          // the steps whose end is the end of the wait
	ends    []int32          // the waits that the end of the step ends
}

// commonWith returns the innermost loop around a step and one of its needs, or -1.
func (p *plan) commonWith(need int32) int32 {
	return p.common[slices.Index(p.needs, need)]
}

// where returns the place that failures name: in the document that the flow was made of, or else in the flow.
func (p *plan) where() string {
	if p.step != nil && p.step.Place != "" {
		return p.step.Place
	}
	return p.place
}

type sleepPlan struct {
	until  bool
	amount *expr.Template
}

// hookStage is a place where hooks run: the outcome's own, or onExit.
type hookStage uint8

const (
	onSuccess hookStage = iota
	onFailure
	onTimeout
	onCancel
	onExit
	onNotice  // runs beside onExit
	onWarning // while the run goes on
)

// asMachine returns the definition as the machine sees it.
func (d *definition) asMachine() *core.Definition {
	def := &core.Definition{
		Specs: make([]*core.StepSpec, len(d.plans)), NewDecider: func(*core.Run) core.Decider { return newDecider(d) },
		Rules: d.rules, Begins: d.begins, Timetable: d.timetable(), Recalls: d.recalls, Tolerates: d.tolerates,
		Newest:     d.doc.Newest,
		MayDecide:  d.mayDecide,
		Dependents: d.dependents, CountItems: d.countItems, ItemNames: d.itemNames, CheckInput: d.doc.CheckInput,
	}
	def.Queues, def.Services = d.doc.limits()
	def.GraceOf = d.graceOf
	for i := range d.plans {
		def.Specs[i] = d.plans[i].spec
	}
	if d.doc.Queue != nil {
		def.RunQueue = d.runQueue
	}
	if d.chain != nil {
		def.Follows = d.follows
	}
	return def
}

// Compile makes a definition of a document. A document from Parse always compiles; one that was built in code is
// checked here. Errors are an [Errors] value.
func Compile(doc *Document) (*core.Definition, error) {
	def, err := doc.definition()
	if err != nil {
		return nil, err
	}
	return def.machine, nil
}

// definition returns the compiled document: the one that Parse made, or one made now of a document that was built in
// code.
func (d *Document) definition() (*definition, error) {
	if d.built != nil {
		return d.built, nil
	}
	r := &tree.Reports{Source: d.src}
	def := build(d, r)
	if err := r.Err(); err != nil {
		for _, e := range r.Errors {
			if e.File == "" {
				e.File = d.Name
			}
		}
		return nil, err
	}
	return def, nil
}

// ordinal finds a step's plan. A spec that travelled in its record has no ordinal and is known by its name.
func (d *definition) ordinal(s *core.Step) (int32, bool) {
	def := s.Spec.Def
	if def < 0 {
		found, ok := d.byName[s.Spec.Name]
		if !ok {
			return 0, false
		}
		def = found
		if s.Group != core.NoStep {
			def = d.plans[def].item
		}
	}
	return def, int(def) < len(d.plans)
}

// tolerates reports whether what needs the step goes on although it did not succeed.
func (d *definition) tolerates(s *core.Step) bool {
	def, known := d.ordinal(s)
	return known && d.plans[def].tolerant(s)
}

func (p *plan) tolerant(s *core.Step) bool {
	ending := endingOf(s)
	for _, e := range p.tolerates {
		if e == ending {
			return true
		}
	}
	return false
}

// defaultGrace is how long the work of an exec step has to end after it was told to, where the flow does not say.
const defaultGrace = 5 * time.Second

// graceOf returns how long the work of a step has to end after it was told to, before it is killed.
func (d *definition) graceOf(s *core.Step) time.Duration {
	def, known := d.ordinal(s)
	if !known {
		return 0
	}
	a, isExec := d.plans[def].step.Action.(*Exec)
	switch {
	case !isExec:
		return 0
	case a.Grace == nil:
		return defaultGrace
	default:
		return *a.Grace
	}
}

// endingOf names how a step ended that did not succeed.
func endingOf(s *core.Step) Ending {
	switch s.Phase {
	case core.StepTimedOut:
		return EndTimeout
	case core.StepCancelled:
		return EndCancelled
	default:
	}
	if s.Failure == nil {
		return EndError
	}
	switch s.Failure.Kind {
	case policy.KindFailed:
		return EndFailed
	case policy.KindTimeout:
		return EndTimeout
	case policy.KindCancelled:
		return EndCancelled
	default:
		return EndError
	}
}

// short cuts the text of an expression, which is there to recognise it.
func short(text string) string {
	const most = 120
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// broken returns the failure of something whose expression cannot be evaluated.
func broken(what, place string, err error) *policy.Failure {
	text := fmt.Sprintf("%s: %s", what, err)
	switch e := err.(type) { //nolint:errorlint // made by this package, never wrapped
	case *expr.Error:
		text = fmt.Sprintf("%s: %s in %s", what, e.Msg, short(e.Text))
	case expr.Refusal:
		text = string(e)
	}
	if place != "" {
		text += " (" + place + ")"
	}
	return &policy.Failure{Kind: policy.KindFailed, Type: "expression", Message: text, NonRetryable: true}
}
