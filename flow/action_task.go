package flow

import (
	"fmt"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// Task calls a worker's function.
type Task struct {
	Type  string
	Queue string
	Input tree.Value
	// ArtifactsFrom names steps whose artifacts the worker gets, as the field artifacts of the input.
	ArtifactsFrom []string

	artifactsPos []tree.Pos // the places of ArtifactsFrom
	ordinary
}

var taskKeys = []string{"queue", "type", "input", "artifactsFrom"}

func (*Task) kind() string { return "task" }

func (t *Task) read(p *parsing, n *tree.Node) {
	if n.Kind == tree.Text {
		t.Type = n.Text
		refuseOwnType(p, n)
		return
	}
	if p.object(n, "task", taskKeys) {
		t.Type = p.text(n.Get("type"), "type")
		refuseOwnType(p, n.Get("type"))
		t.Queue = p.text(n.Get("queue"), "queue")
		t.Input = tree.ValueOf(n.Get("input"))
		t.ArtifactsFrom, t.artifactsPos = p.texts(n.Get("artifactsFrom"), "artifactsFrom")
	}
	if t.Type == "" && (n.Kind == tree.Mapping || n.Kind == tree.Null) {
		p.missing(n, taskKeys, "name the worker's function: type: SendReceipt", "the task has no type")
	}
}

// refuseOwnType refuses a task's type that is Pawl's own.
func refuseOwnType(p *parsing, n *tree.Node) {
	if n != nil && contains(ownTypes, n.Text) {
		p.Fail(n.Pos, fmt.Sprintf("write %s: in place of task:", n.Text), ownType, n.Text)
	}
}

const ownType = "the type %q of a task is Pawl's own, not a worker's"

func (t *Task) encode() tree.Value {
	out := object{}
	out.text("queue", t.Queue)
	out.text("type", t.Type)
	if !t.Input.IsZero() {
		out.must("input", t.Input)
	}
	out.names("artifactsFrom", t.ArtifactsFrom)
	return out.value()
}

func (t *Task) spec(spec *core.StepSpec) {
	spec.Type = t.Type
	if t.Queue != "" {
		spec.Queue = t.Queue
	}
}

func (t *Task) compile(b *builder, p *plan, s *Step, vars expr.Vars) {
	p.payload = b.compiler.Template(b.taskInput(t), vars, false)
	if t.Type == "" && b.Source == nil {
		b.stepFail(s.pos, "", "the task has no type")
	}
	if contains(ownTypes, t.Type) && b.Source == nil {
		b.stepFail(s.pos, "", ownType, t.Type)
	}
}

// taskInput returns the input of a task, with the files of other steps.
func (b *builder) taskInput(a *Task) *tree.Node {
	input := tree.NodeOf(a.Input)
	if len(a.ArtifactsFrom) == 0 {
		return input
	}
	whole := &tree.Node{Kind: tree.Mapping}
	switch {
	case input == nil:
	case input.Kind != tree.Mapping:
		b.stepFail(input.Pos, "write input: {…}", "artifactsFrom adds a field to the input, so that is a mapping")
		return input
	case input.Get("artifacts") != nil:
		b.stepFail(input.Key("artifacts"), "leave one of them out",
			"the input has artifacts, and artifactsFrom adds a field with that name")
	default:
		whole.Pos = input.Pos
		for _, f := range input.Fields {
			whole.Add(f.Name, f.Pos, f.Value)
		}
	}
	whole.Add("artifacts", whole.Pos, b.filesOf(a.ArtifactsFrom, a.artifactsPos))
	return whole
}

// filesOf returns the list of the artifacts of steps.
func (b *builder) filesOf(names []string, places []tree.Pos) *tree.Node {
	list := &tree.Node{Kind: tree.List}
	for i, name := range names {
		var at tree.Pos
		if i < len(places) {
			at = places[i]
		}
		from := b.stepOf(name)
		switch {
		case from == nil:
			b.stepFail(at, nearest.Hint(name, b.def.language.Steps()), "there is no step %q", name)
			continue
		case !keepsArtifacts(from):
			b.stepFail(at, "add artifacts: [PATH] to it", "step %q keeps no artifacts", name)
			continue
		}
		text := "${{ steps['" + name + "'].output?.artifacts }}"
		if from.isLoop() {
			text = "${{ map(steps['" + name + "'].output ?? [], #?.artifacts) }}"
		}
		list.Push(&tree.Node{Kind: tree.Text, Pos: at, Text: text})
	}
	return list
}

// stepOf returns the step with a name, or nil if there is none.
func (b *builder) stepOf(name string) *Step {
	for _, s := range b.doc.Steps {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// keepsArtifacts reports whether a step may have files. Of a task its worker decides.
func keepsArtifacts(s *Step) bool {
	if _, task := s.Action.(*Task); task {
		return true
	}
	e, ok := s.Action.(*Exec)
	return ok && !e.Artifacts.IsZero()
}
