package flow

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Action is the work of a step. Each has a file of its own, with all that the language knows of it, and a row of
// actions.
//
//sumtype:decl
type Action interface {
	kind() string                  // the key of a step
	read(p *parsing, n *tree.Node) // the value of that key
	encode() tree.Value            // the value that is read as this action
	spec(spec *core.StepSpec)      // what the machine needs to know
	compile(b *builder, p *plan, s *Step, vars expr.Vars)

	// notTask says what the action is in an error, if no worker takes it; else "".
	notTask() string
	// shared returns what the action takes of the shared policy.
	shared(policy.Policy) policy.Policy
	// over returns the action with the settings that services and defaults have for it; nil: they have none.
	over(Settings) Action
	// pointless explains why a limit is useless for the action; "" if it is not.
	pointless(kind policy.LimitKind, inLines bool) (severity Severity, code, why string)
	// lint looks for whatever else may be wrong.
	lint(l *linter, s *Step, p *plan)
	// withNotice returns the action with the text of a notice, which it sends; nil: it has a text, or takes none.
	withNotice() Action
}

// ordinary is the part that most actions have in common: a worker takes them, with the whole shared policy.
type ordinary struct{}

func (ordinary) notTask() string                        { return "" }
func (ordinary) shared(all policy.Policy) policy.Policy { return all }
func (ordinary) over(Settings) Action                   { return nil }
func (ordinary) lint(*linter, *Step, *plan)             {}
func (ordinary) withNotice() Action                     { return nil }

func (ordinary) pointless(kind policy.LimitKind, _ bool) (severity Severity, code, why string) {
	return noEvent(kind)
}

// actionRow is one action of the language.
type actionRow struct {
	make     func() Action
	own      bool // its attempts have the type of its key, which no task may have
	notifies bool // an entry of notify may do it
}

// actions are all of them, in the order in which errors list them.
var actions = []actionRow{
	{func() Action { return &Exec{} }, true, true},
	{func() Action { return &HTTP{} }, true, true},
	{func() Action { return &Task{} }, false, true},
	{func() Action { return &Sleep{} }, false, false},
	{func() Action { return &Wait{} }, false, false},
	{func() Action { return &Child{} }, false, false},
	{func() Action { return &Fail{} }, true, false},
	{func() Action { return &Noop{} }, true, false},
	{func() Action { return &Mail{} }, true, true},
}

var (
	kindKeys = keysOfActions(func(actionRow) bool { return true })
	// ownTypes are the task types of the other keys of a step. No worker serves them under that name, and their
	// payloads are checked below their keys.
	ownTypes    = keysOfActions(func(r actionRow) bool { return r.own })
	notifyKinds = slices.Sorted(slices.Values(keysOfActions(func(r actionRow) bool { return r.notifies })))
)

func keysOfActions(which func(actionRow) bool) []string {
	var keys []string
	for _, r := range actions {
		if which(r) {
			keys = append(keys, r.make().kind())
		}
	}
	return keys
}

// action reads the step's action: exactly one of the kinds.
func (p *parsing) action(n *tree.Node, s *Step) {
	var found []tree.NodeField
	for _, f := range n.Fields {
		if contains(kindKeys, f.Name) && !slices.ContainsFunc(found,
			func(o tree.NodeField) bool { return o.Name == f.Name }) {
			found = append(found, f)
		}
	}
	switch len(found) {
	case 0:
		if listed(n) {
			return // a loop
		}
		p.missing(n, p.withForms(stepKeys), "add one of "+orList(kindKeys), "the step does nothing")
		return
	case 1:
	default:
		p.Fail(found[1].Pos, "make two steps of it", "a step does one thing; this one has %s and %s", found[0].Name,
			found[1].Name)
	}
	v := found[0].Value
	s.action = found[0].Pos
	chosen := func(r actionRow) bool { return r.make().kind() == found[0].Name }
	s.Action = actions[slices.IndexFunc(actions, chosen)].make()
	s.Action.read(p, v)
}

// withoutEffect refuses settings that only tasks have on a step that is not a task.
func (p *parsing) withoutEffect(n *tree.Node, s *Step) {
	what := "a loop"
	if s.Action != nil {
		if what = s.Action.notTask(); what == "" {
			return
		}
	} else if !listed(n) {
		return // it does nothing, which is reported
	}
	for _, key := range []string{"queue", "priority", "key"} {
		if v := n.Get(key); v != nil && v.Kind != tree.Null {
			p.Fail(n.Key(key), "leave it out", "%s is not a task of a worker, so %s has no effect", what, key)
		}
	}
}

// action compiles what a step does into the payload its worker reads.
func (b *builder) action(p *plan, s *Step, vars expr.Vars) {
	b.share(p, s, vars)
	b.amounts(p, vars)
	if s.Action != nil {
		s.Action.compile(b, p, s, vars)
	}
}

// milliseconds adds a duration where there is one.
func milliseconds(o *expr.Object, name string, d *time.Duration) {
	if d != nil {
		o.Data(name, V(int(*d/time.Millisecond)))
	}
}

// noEvent explains why the limit of waits is useless for all other actions.
func noEvent(kind policy.LimitKind) (severity Severity, code, why string) {
	if kind == policy.LimitWait {
		return Warning, lintLimitNoEffect, "it waits for no event, so wait has no effect; use scheduleToClose"
	}
	return "", "", ""
}
