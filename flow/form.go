package flow

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Form is another system's way of writing the limits of steps and runs: a mapping below its own key, where retry and
// timeout may be written.
//
//	temporal: {startToCloseTimeout: 10s}
//
// Parse translates it while it reads, so later code does not know the system. In defaults, services and steps the
// fields of the lower mapping replace those of the upper one, each as a whole. Their result is the whole policy of the
// place: nothing that is written in other words is inherited from above.
//
// The functions get a mapping as [Value.Any] gives it. The errors they return are [*FieldError] values, and the
// Origin of every limit and retry policy is the name of the field that set it; Parse makes places of both.
type Form struct {
	Key   string   // the key of the mapping
	Kinds []string // kinds of the steps that it bounds: exec, task, …
	// Step translates the limits of a step of that kind; the kind is "" for settings that several kinds share.
	Step func(fields any, kind string) (Settings, []Note, error)
	// Complete checks the policy of a step with the form's words, with its inherited settings. If it is nil, every
	// policy is valid.
	Complete func(p policy.Policy) error
	// Run translates the mapping at the top of a flow.
	Run func(fields any) (RunSettings, []Note, error)
	// Schema is a JSON object of two JSON Schemas: "step" for the mapping in steps, services and defaults, "run" for
	// the one at the top.
	Schema []byte
}

// FieldError describes an error of one field of a form's mapping: Path leads to it from the mapping, with list items by
// their index from 0; Key is set if the field's name is wrong and not its value; Msg describes the error.
type FieldError = decode.Error

// Note notes that a field of a form has no counterpart.
type Note struct {
	Path []string // down to the field, from the form's mapping
	File string   // the file of the field; set by Parse, as Pos is
	Pos  tree.Pos
	Msg  string
}

// formed is the policy of one place in the words of a form, with the inherited fields.
type formed struct {
	form     *Form
	fields   *tree.Node // each with its place
	settings Settings
}

// withForms returns the keys of a mapping that may also have those of forms.
func (p *parsing) withForms(native []string) []string {
	if len(p.forms) == 0 {
		return native
	}
	keys := slices.Clone(native)
	for i := range p.forms {
		keys = append(keys, p.forms[i].Key)
	}
	return keys
}

// form finds the mapping in another system's words, and reports contradictions: a second one, or rivals, native keys
// for the same settings.
func (p *parsing) form(n *tree.Node, what string, rivals ...string) (*Form, *tree.Node) {
	var found *Form
	var fields *tree.Node
	for _, field := range n.Fields {
		i := slices.IndexFunc(p.forms, func(f Form) bool { return f.Key == field.Name })
		switch {
		case i < 0 || field.Value.Kind == tree.Null:
		case found == &p.forms[i]: // given twice, which is reported
		case found != nil:
			p.Fail(field.Pos, "keep one of them", "%s and %s both bound %s", found.Key, field.Name, what)
		case field.Value.Kind != tree.Mapping:
			p.Fail(field.Value.Pos, "", "%s is a mapping, not %s", field.Name, tree.Describe(field.Value))
		default:
			found, fields = &p.forms[i], field.Value
		}
	}
	if found != nil {
		p.rivals(n, found, rivals...)
		if !slices.Contains(p.found, found) {
			p.found = append(p.found, found)
		}
	}
	return found, fields
}

// ownForm returns the key of the form in whose words the flow is written, as [Document.Form] has it.
func (p *parsing) ownForm() string {
	switch {
	case p.run != nil:
		return p.run.Key
	case len(p.found) == 1:
		return p.found[0].Key
	default:
		return ""
	}
}

func (p *parsing) rivals(n *tree.Node, form *Form, keys ...string) {
	for _, key := range keys {
		if value := n.Get(key); value != nil && value.Kind != tree.Null {
			p.Fail(n.Key(key), "write it in the words of one of them",
				"%s has no place beside %s, which says all of it", key, form.Key)
		}
	}
}

// translate translates the fields of a mapping laid over those it inherits; nil if they are wrong. Queue and priority
// are the mapping's own: they are inherited as native ones are.
func (p *parsing) translate(form *Form, n, fields *tree.Node, above *formed, kind string) *formed {
	own := fields
	if above != nil && above.form == form {
		fields = tree.NodeOf(overMapping(tree.ValueOf(above.fields), tree.ValueOf(own)))
	}
	settings, notes, err := form.Step(fields.Any(), kind)
	if err != nil {
		p.field(fields, form.Key, err)
		return nil
	}
	if fields != own {
		alone, _, _ := form.Step(own.Any(), kind) // errors here were reported before
		settings.Queue, settings.Priority = alone.Queue, alone.Priority
	}
	if settings.Queue != "" {
		p.rivals(n, form, "queue")
	}
	if settings.Priority != nil {
		p.rivals(n, form, "priority")
	}
	p.note(form, fields, notes)
	p.origin(fields, settings.Policy.Retry)
	for _, kind := range policy.StepLimits {
		p.limitOrigin(fields, settings.Policy.Get(kind))
	}
	return &formed{form, fields, settings}
}

// note keeps a field that has no counterpart once: every step inherits a note of the defaults.
func (p *parsing) note(form *Form, fields *tree.Node, notes []Note) {
	for _, n := range notes {
		n.Msg = form.Key + ": " + n.Msg
		n.File, n.Pos = p.Source.Locate(fields.At(n.Path).Pos)
		key := fmt.Sprint(n.File, n.Pos, n.Msg)
		if !p.noted[key] {
			p.noted[key] = true
			p.notes = append(p.notes, n)
		}
	}
}

// origin makes a place of the name of the field that set a retry policy.
func (p *parsing) origin(fields *tree.Node, r *policy.Retry) {
	if r != nil {
		r.Origin = p.Source.Place(fields.At([]string{r.Origin}).Pos)
	}
}

func (p *parsing) limitOrigin(fields *tree.Node, l *policy.Limit) {
	if l != nil {
		l.Origin = p.Source.Place(fields.At([]string{l.Origin}).Pos)
	}
}

// shared reads the form's words in the defaults or a service into their settings. above is what they inherit in those
// words, and base the policy they inherit. It returns what their steps inherit.
func (p *parsing) shared(n *tree.Node, s *Settings, what string, above *formed, base policy.Policy) *formed {
	form, fields := p.form(n, what, "retry", "timeout")
	if form == nil {
		return above
	}
	b := p.translate(form, n, fields, above, "")
	if b == nil {
		return nil
	}
	b.lay(&s.Policy, &s.Queue, &s.Priority, base)
	return b
}

// lay makes the translation the whole policy of a place: limits that it would inherit are taken away where the form
// sets none.
func (b *formed) lay(p *policy.Policy, queue *string, priority **int32, base policy.Policy) {
	*p = b.settings.Policy
	for _, kind := range policy.StepLimits {
		if base.Get(kind) != nil && p.Get(kind) == nil {
			p.Set(kind, &policy.Limit{Removed: true})
		}
	}
	if b.settings.Queue != "" {
		*queue = b.settings.Queue
	}
	if b.settings.Priority != nil {
		*priority = b.settings.Priority
	}
}

// formOfStep limits a step in the words of a form: by its own mapping, or by what it inherits.
func (p *parsing) formOfStep(n *tree.Node, s *Step) {
	kind := ""
	if s.Action != nil {
		kind = s.Action.kind()
	}
	above, base := p.defaults, p.doc.Defaults.Policy
	if service, ok := p.services[s.Service]; ok {
		above, base = service.formed, base.Overlay(service.policy)
	}
	form, fields := p.form(n, "the step", "retry", "timeout")
	switch {
	case kind == "": // reported
	case form != nil && !slices.Contains(form.Kinds, kind):
		p.Fail(n.Key(form.Key), "", "%s bounds steps that are %s, not %s", form.Key, orList(form.Kinds), kind)
	case form != nil:
		if own := p.translate(form, n, fields, above, kind); own != nil {
			own.lay(&s.Policy, &s.Queue, &s.Priority, base)
			p.complete(form, s.Policy, fields.Pos)
		}
	case above == nil || kind == "sleep" || kind == "wait": // these inherit no policy
	case slices.Contains(above.form.Kinds, kind):
		p.complete(above.form, base.Overlay(s.Policy), s.pos)
	default:
		above.withdraw(&s.Policy, base)
	}
}

func (p *parsing) complete(form *Form, whole policy.Policy, at tree.Pos) {
	if form.Complete == nil {
		return
	}
	if err := form.Complete(whole); err != nil {
		p.Fail(at, "", "%s: %s", form.Key, err)
	}
}

// withdraw removes from a step the inherited settings in words that do not apply to steps of its kind.
func (b *formed) withdraw(p *policy.Policy, base policy.Policy) {
	if p.Retry == nil && base.Retry != nil && base.Retry == b.settings.Policy.Retry {
		p.Retry = policy.DefaultRetry()
	}
	for _, kind := range policy.StepLimits {
		if inherited := base.Get(kind); inherited != nil && inherited == b.settings.Policy.Get(kind) &&
			p.Get(kind) == nil {
			p.Set(kind, &policy.Limit{Removed: true})
		}
	}
}

// formOfRun reads the form's mapping at the top of a flow.
func (p *parsing) formOfRun(n *tree.Node) {
	form, fields := p.form(n, "the run", runKeys...)
	if form == nil {
		return
	}
	p.run = form
	settings, notes, err := form.Run(fields.Any())
	if err != nil {
		p.field(fields, form.Key, err)
		return
	}
	p.note(form, fields, notes)
	p.origin(fields, settings.Retry)
	for _, limit := range []*policy.Limit{settings.Limits.Execution, settings.Limits.Run, settings.Limits.Deadline} {
		p.limitOrigin(fields, limit)
	}
	p.doc.RunSettings = settings
}
