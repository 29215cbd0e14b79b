package aether

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// The ways a task ends, in Aether's words, and their codes, by the words of a flow.
const (
	phasesByPhase = `{"succeeded": "Succeeded", "skipped": "Skipped", "cancelled": "Cancelled", "timed_out": "Timeout"}`
	phasesByKind  = `{"failed": "Failed", "timeout": "Timeout", "cancelled": "Cancelled"}`
	codesByKind   = `{"failed": 2, "timeout": 4}`
	codeOfError   = "3"
)

// Pieces of the patterns that find names in an expression: a quoted text, which contains no names, and the rest of a
// name. `.phase`, `?.phase` and `["phase"]` are the same. A name with a dash must have a letter after it, because
// total-1 is a subtraction; in brackets it may be any text.
const (
	quotedText = `'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"`
	inBrackets = `(?:\?\.)?\[\s*(?:"[^"\\]*"|'[^'\\]*')\s*\]`
	anyName    = `(?:\??\.\w+(?:-[A-Za-z_]\w*)*|` + inBrackets + `)`
	parameters = `(?:\??\.parameters\b|(?:\?\.)?\[\s*["']parameters["']\s*\])`
)

// referred finds a name that an expression or a {{ }} may hold, or a quoted text, in which nothing but {{ }} is a name.
var referred = regexp.MustCompile(quotedText + `|\{\{[^{}]*\}\}` +
	`|\btasks(?:\??\.[A-Za-z0-9_-]+|` + inBrackets + `)` +
	`(?:\??\.(?:phase|code|msg)\b|(?:\?\.)?\[\s*["'](?:phase|code|msg)["']\s*\]` +
	`|(?:\??\.outputs\b|(?:\?\.)?\[\s*["']outputs["']\s*\])` + parameters + `?` + anyName + `)` +
	`|\b(?:inputs|workflow\??\.(?:arguments|parameters))` + parameters + `?` + anyName +
	`|\b(?:iterator|loop_iter)(?:\??\.\w+\b|` + inBrackets + `)`)

// part finds the first part of a name: up to the next dot, or in brackets.
var part = regexp.MustCompile(`^(?:(?:\??\.)?\[\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\]|(?:\??\.)?([^.\[]*))`)

// partsOf splits a name such as tasks.check.outputs["parameters"].status at its dots and brackets.
func partsOf(name string) []string {
	var parts []string
	for rest := strings.TrimSpace(name); rest != ""; {
		found := part.FindStringSubmatch(rest)
		if found[0] == "" { // brackets without a quoted text
			return append(parts, rest)
		}
		parts = append(parts, found[1]+found[2]+strings.TrimSuffix(found[3], "?"))
		rest = rest[len(found[0]):]
	}
	return append(parts, make([]string, max(0, 1-len(parts)))...)
}

// ended reports whether a task has ended, so that an expression may name it. If the function is nil, no task has.
type ended func(task string) bool

// scope knows what the names mean in one flow.
type scope struct {
	*converter
	t      *template
	doc    *flow.Document
	names  form.Namer
	outs   map[string]*outputs // the outputs of the tasks
	needs  map[string]ended    // the tasks that each task's expressions may name
	inputs string              // an expression for the template's inputs
	own    *given              // the inputs of the current task
	self   *outputs            // the outputs of the attempt that a retry's expression judges
	args   string              // an expression for the workflow's arguments

	// Only for a loop: expressions for an iteration's item and index, and those of them that its body has as inputs.
	item, index string
	iterated    map[string]string
	spread      string

	// Only for a loop: the dag that calls it, whose tasks its expressions may name. They are handed to its flow by
	// name.
	outer    *scope
	outerMay ended
	imports  map[string]string
}

// expression rewrites an expression of Aether's. self is the task to which it belongs if it judges that task's own end.
func (s *scope) expression(text, self string, may ended, at tree.Pos) string {
	return referred.ReplaceAllStringFunc(text, func(found string) string {
		switch {
		case found[0] == '{':
			return s.reference(strings.Trim(found, "{}"), self, may, at)
		case found[0] != '"' && found[0] != '\'':
			return s.reference(found, self, may, at)
		case strings.Contains(found, "{{"):
			return "(" + s.text(found[1:len(found)-1], may, at) + ")"
		default:
			return found
		}
	})
}

// reference gives the expression for a name such as tasks.check.outputs.parameters.status. The rest of such a name
// leads into its value.
func (s *scope) reference(name, self string, may ended, at tree.Pos) string {
	name = strings.TrimSpace(name)
	parts := partsOf(name)
	after := func(n int) []string { // the names after the first n, and after "parameters"
		if len(parts) > n && parts[n] == "parameters" {
			n++
		}
		return parts[min(n, len(parts)):]
	}
	switch rest := after(1); {
	case parts[0] == "inputs" && len(rest) > 0:
		if s.own != nil {
			if expr, known := s.own.get(rest[0]); known {
				return path("("+expr+")", rest[1:])
			}
		}
		return path(s.inputs, rest)
	case parts[0] == "workflow" && len(after(2)) > 0 && (parts[1] == "arguments" || parts[1] == "parameters"):
		return path(s.args, after(2))
	case (parts[0] == "iterator" || parts[0] == "loop_iter") && len(parts) > 1:
		return s.iteration(name, parts[1:], at)
	case parts[0] == "tasks" && len(parts) == 3 && parts[1] == self && slices.Contains(asked, parts[2]):
		return own(parts[2])
	case parts[0] == "tasks" && parts[1] == self && len(after(3)) > 0 && parts[2] == "outputs":
		return s.ownOutput(after(3), at)
	case parts[0] == "tasks" && (len(parts) == 3 && slices.Contains(asked, parts[2]) ||
		len(after(3)) > 0 && parts[2] == "outputs"):
		return s.ofTask(name, parts[1], parts[2], after(3), may, at)
	}
	s.file.Fail(at,
		"write tasks.<name>.outputs.parameters.<p>, inputs.parameters.<p> or workflow.arguments.parameters.<p>",
		"%q does not name a value", name)
	return "nil"
}

// asked holds the fields of an ended task that a name may ask for, beside its outputs.
var asked = []string{"phase", "code", "msg"}

// path leads into a value.
func path(expr string, names []string) string {
	for _, name := range names {
		expr += "?.[" + form.Expr(name) + "]"
	}
	return expr
}

// iteration gives iterator.item, iterator.index, and the field of an item with that name.
func (s *scope) iteration(name string, parts []string, at tree.Pos) string {
	if s.item == "" {
		s.file.Fail(at, "", "%s is known in the arguments of a loop only", name)
		return "nil"
	}
	switch parts[0] {
	case "index":
		return s.index
	case "item":
		return path(s.item, parts[1:])
	default:
		return path(s.item, parts)
	}
}

// ofTask gives what a name asks of a task of this dag; in a loop, of the dag that calls it.
func (s *scope) ofTask(name, task, field string, rest []string, may ended, at tree.Pos) string {
	switch {
	case s.outs[task] == nil && !s.t.has(task) && s.outer != nil:
		if s.imports == nil {
			s.imports = map[string]string{}
		}
		s.imports[name] = s.outer.reference(name, "", s.outerMay, at)
		return "input.outer[" + form.Expr(name) + "]"
	case s.outs[task] == nil && !s.t.has(task):
		s.file.Fail(at, s.nearestTask(task), "there is no task %q", task)
		return "nil"
	case may == nil || !may(task) || s.outs[task] == nil:
		s.file.Fail(at, "add it to the task's dependencies", "task %q need not have ended here", task)
		return "nil"
	case field != "outputs":
		return s.task(task, field)
	}
	if known := s.outs[task].declared; known != nil && !slices.Contains(known, rest[0]) {
		s.file.Fail(at, nearest.Hint(rest[0], known), "task %q has no output %q", task, rest[0])
		return "nil"
	}
	return path(s.outs[task].get(rest[0]), rest[1:])
}

func (s *scope) nearestTask(name string) string {
	var names []string
	for _, k := range s.t.tasks {
		names = append(names, k.name)
	}
	return nearest.Hint(name, names)
}

func (t *template) has(name string) bool {
	return slices.ContainsFunc(t.tasks, func(k *task) bool { return k.name == name })
}

// ownOutput returns an expression for an output parameter of the attempt that a retry's expression judges. It is nil if
// the attempt returned none, as after a timeout.
func (s *scope) ownOutput(rest []string, at tree.Pos) string {
	if known := s.self.declared; known != nil && !slices.Contains(known, rest[0]) {
		s.file.Fail(at, nearest.Hint(rest[0], known), "the task has no output %q", rest[0])
		return "nil"
	}
	return path(s.self.get(rest[0]), rest[1:])
}

// own returns an expression for a field of the task that just ended badly, as its retry's expression reads it.
func own(field string) string {
	switch field {
	case "phase":
		return "(" + phasesByKind + `[failure.kind] ?? "Error")`
	case "code":
		return "(failure.code != 0 ? failure.code : " + codesByKind + "[failure.kind] ?? " + codeOfError + ")"
	default:
		return "failure.message"
	}
}

// task returns an expression for a field of a task that has ended.
func (s *scope) task(name, field string) string {
	step := "steps[" + form.Expr(name) + "]"
	switch field {
	case "phase":
		return "(" + phasesByPhase + "[" + step + ".phase] ?? " + phasesByKind + "[" + step +
			`.failure.kind] ?? "Error")`
	case "code":
		return "(" + step + `.phase in ["succeeded", "skipped"] ? 0 : (` + step + ".failure?.code ?? 0) != 0 ? " +
			step + ".failure?.code : " +
			codesByKind + "[" + step + `.failure?.kind ?? ""] ?? ` + codeOfError + ")"
	default:
		return "(" + step + `.phase == "succeeded" ? "" : ` + step + `.failure?.message ?? "")`
	}
}

// value gives the expression for data whose texts may contain {{name}}.
func (s *scope) value(v any, may ended, at tree.Pos) string {
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
		for _, name := range slices.Sorted(maps.Keys(v)) { // errors have an order
			fields[name] = s.value(v[name], may, at)
		}
		return form.Object(fields)
	default:
		return form.Expr(v)
	}
}

// text gives the expression for a text: the value itself if the text is one {{name}} and nothing else. The name of an
// output that does not exist stays as it is written, and so does an unknown name within a text.
func (s *scope) text(text string, may ended, at tree.Pos) string {
	return form.Fill(text, func(name string, alone bool) string {
		value, parts := s.reference(name, "", may, at), partsOf(name)
		ofTask := parts[0] == "tasks" && len(parts) > 2
		if ofTask && parts[2] == "outputs" || !alone && !(ofTask && slices.Contains(asked, parts[2])) {
			value = "(" + value + " ?? " + form.Expr("{{"+name+"}}") + ")"
		}
		if alone {
			return value
		}
		return "string(" + value + ")"
	})
}
