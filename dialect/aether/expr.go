package aether

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/flow"
)

// What Aether calls the ways a task ends, by the words of a flow.
const (
	phasesByPhase = `{"succeeded": "Succeeded", "skipped": "Skipped", "cancelled": "Cancelled", "timed_out": "Timeout"}`
	phasesByKind  = `{"failed": "Failed", "timeout": "Timeout", "cancelled": "Cancelled"}`
)

// referred finds a name that an expression or a {{ }} may hold, or a quoted text, in which nothing is a name.
var referred = regexp.MustCompile(`'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"` +
	`|\btasks\.[A-Za-z0-9_-]+\.(?:phase|code|msg)\b` +
	`|\b(?:tasks\.[A-Za-z0-9_-]+\.outputs|inputs|workflow\.arguments|workflow\.parameters)(?:\.parameters)?\.\w+(?:-[A-Za-z_]\w*)*` +
	`|\b(?:iterator|loop_iter)\.(?:item|index)\b`)

// scope knows what the names mean in one flow.
type scope struct {
	*converter
	t      *template
	doc    *flow.Document
	names  form.Namer
	outs   map[string]func(name string) string // the outputs of tasks
	needs  map[string]map[string]bool          // what each task's expressions may name
	inputs string                              // an expression for the template's inputs
	args   string                              // and for the workflow's arguments
	item   string                              // of an iteration
	index  string
}

// expression rewrites an expression of Aether's. self is the task it belongs to where it judges that one's own end.
func (s *scope) expression(text, self string, may map[string]bool, at flow.Pos) string {
	return referred.ReplaceAllStringFunc(text, func(found string) string {
		if found[0] == '"' || found[0] == '\'' {
			return found
		}
		return s.reference(found, self, may, at)
	})
}

// reference gives the expression for a name such as tasks.check.outputs.parameters.status.
func (s *scope) reference(name, self string, may map[string]bool, at flow.Pos) string {
	parts := strings.Split(strings.TrimSpace(name), ".")
	last := form.Expr(parts[len(parts)-1])
	switch parts[0] {
	case "inputs":
		return s.inputs + "[" + last + "]"
	case "workflow":
		return s.args + "[" + last + "]"
	case "iterator", "loop_iter":
		value := s.item
		if parts[len(parts)-1] == "index" {
			value = s.index
		}
		if value == "" {
			s.file.Fail(at, "", "%s is known in the arguments of a loop only", name)
			return "nil"
		}
		return value
	case "tasks":
		if len(parts) < 3 {
			break
		}
		if parts[1] == self {
			return own(parts[2])
		}
		if s.outs[parts[1]] == nil && !s.t.has(parts[1]) {
			s.file.Fail(at, s.nearestTask(parts[1]), "there is no task %q", parts[1])
			return "nil"
		}
		if !may[parts[1]] || s.outs[parts[1]] == nil {
			s.file.Fail(at, "add it to the task's dependencies", "task %q need not have ended here", parts[1])
			return "nil"
		}
		return s.task(parts[1], parts[2], parts[len(parts)-1])
	}
	s.file.Fail(at, "write tasks.<name>.outputs.parameters.<p>, inputs.parameters.<p> or workflow.arguments.parameters.<p>", "%q is no name of a value", name)
	return "nil"
}

func (s *scope) nearestTask(name string) string {
	var names []string
	for _, k := range s.t.tasks {
		names = append(names, k.name)
	}
	return flow.Nearest(name, names)
}

func (t *template) has(name string) bool {
	return slices.ContainsFunc(t.tasks, func(k *task) bool { return k.name == name })
}

// own is what a retry's expression sees of the task that just ended badly.
func own(field string) string {
	switch field {
	case "phase":
		return "(" + phasesByKind + `[failure.kind] ?? "Error")`
	case "code":
		return "failure.code"
	case "msg":
		return "failure.message"
	default:
		return "nil" // it has no outputs
	}
}

// task is what an expression sees of a task that has ended.
func (s *scope) task(name, field, parameter string) string {
	step := "steps[" + form.Expr(name) + "]"
	switch field {
	case "phase":
		return "(" + phasesByPhase + "[" + step + ".phase] ?? " + phasesByKind + "[" + step + `.failure.kind] ?? "Error")`
	case "code":
		return "(" + step + `.phase == "succeeded" ? 0 : ` + step + ".failure?.code ?? 0)"
	case "msg":
		return "(" + step + `.phase == "succeeded" ? "" : ` + step + `.failure?.message ?? "")`
	default:
		return s.outs[name](parameter)
	}
}

// value gives the expression for data in whose texts {{name}} may stand.
func (s *scope) value(v any, may map[string]bool, at flow.Pos) string {
	switch v := v.(type) {
	case string:
		return s.text(v, may, at)
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = s.value(item, may, at)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		fields := map[string]string{}
		for name, item := range v {
			fields[name] = s.value(item, may, at)
		}
		return form.Object(fields)
	default:
		return form.Expr(v)
	}
}

// text gives the expression for a text: the value itself where it is one {{name}} and nothing else.
func (s *scope) text(text string, may map[string]bool, at flow.Pos) string {
	var pieces []string
	rest := text
	for {
		before, after, found := strings.Cut(rest, "{{")
		name, tail, closed := strings.Cut(after, "}}")
		if !found || !closed {
			break
		}
		value := s.reference(name, "", may, at)
		if before == "" && tail == "" && pieces == nil {
			return value
		}
		if before != "" {
			pieces = append(pieces, form.Expr(before))
		}
		pieces = append(pieces, "string("+value+")")
		rest = tail
	}
	if rest != "" || pieces == nil {
		pieces = append(pieces, form.Expr(rest))
	}
	return strings.Join(pieces, " + ")
}

// parameters gives the expression for what a template is called with: its inputs, each with the argument of that name,
// else with its own value. Further arguments are handed on.
func (s *scope) parameters(inputs, arguments []*param, may map[string]bool, at flow.Pos, what string) string {
	fields := map[string]string{}
	for _, p := range arguments {
		fields[p.name] = s.param(p, may)
	}
	for _, p := range inputs {
		if _, given := fields[p.name]; given {
			continue
		}
		if p.from == "" && p.value.IsZero() {
			s.file.Fail(at, "add it to its arguments", "%s is not given the input %q", what, p.name)
			continue
		}
		fields[p.name] = s.param(p, may)
	}
	return form.Object(fields)
}

func (s *scope) param(p *param, may map[string]bool) string {
	if p.from != "" {
		return s.reference(p.from, "", may, p.pos)
	}
	return s.value(p.value.Any(), may, p.pos)
}
