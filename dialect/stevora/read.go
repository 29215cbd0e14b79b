package stevora

import (
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// The types of steps.
const (
	typeTask      = "task"
	typeWait      = "wait"
	typeCondition = "condition"
	typeEvent     = "external_event"
	typeLLM       = "llm"
	typeApproval  = "approval"
)

// keysOf are the keys of each type's steps.
var keysOf = map[string][]string{
	typeTask:      {"handler", "config"},
	typeWait:      {"durationMs", "untilTimestamp"},
	typeCondition: {"expression", "trueStep", "falseStep"},
	typeEvent:     {"signalType", "timeoutMs"},
	typeLLM: {
		"model", "fallbackModels", "systemPrompt", "messages", "temperature", "maxTokens", "responseFormat",
		"outputSchema", "tools", "guardrails",
		"maxToolRounds",
	},
	typeApproval: {"contentKey", "prompt", "timeoutMs"},
}

var types = []string{typeTask, typeWait, typeCondition, typeEvent, typeLLM, typeApproval}

// step is a step as it is written in the document.
type step struct {
	kind, name string
	in         tree.Value
	index      int
}

type reader struct{ *form.File }

func (r *reader) definition(root tree.Value) (name, description string, steps []*step) {
	if !r.Object(root, "a definition", "name", "version", "description", "steps") {
		return "", "", nil
	}
	name = r.limited(root, "the definition", "name", 200)
	r.limited(root, "the definition", "version", 50)
	r.Documents(root, "version")
	if description = r.Text(root, "description"); description != "" {
		description = r.limited(root, "the definition", "description", 1000)
	}
	items := r.List(root.Get("steps"), "steps")
	if len(items) == 0 {
		r.Fail(root.Pos(), "", "the definition has no steps")
	}
	for _, item := range items {
		if s := r.step(item); s != nil {
			if slices.ContainsFunc(steps, func(o *step) bool { return o.name == s.name }) {
				r.Fail(item.At("name").Pos(), "", "there already is a step %q", s.name)
				continue
			}
			s.index = len(steps)
			steps = append(steps, s)
		}
	}
	for _, s := range steps {
		r.jumps(s, steps)
	}
	return name, description, steps
}

func (r *reader) limited(v tree.Value, what, key string, most int) string {
	text := r.Need(v, what, key)
	if n := len([]rune(text)); n > most {
		r.Fail(v.Get(key).Pos(), "", "the %s of %s has %d characters; %d are allowed", key, what, n, most)
	}
	return text
}

func (r *reader) step(v tree.Value) *step {
	if !v.IsMapping() {
		r.Fail(v.Pos(), "", "a step is a mapping, not %s", v)
		return nil
	}
	s := &step{kind: r.Need(v, "the step", "type"), name: r.limited(v, "the step", "name", 100), in: v}
	if s.kind == "" || s.name == "" {
		return nil
	}
	if keysOf[s.kind] == nil {
		r.Fail(v.Get("type").Pos(), nearest.Hint(s.kind, types), "a step of type %q is not known", s.kind)
		return nil
	}
	r.Object(v, "a step of type "+s.kind, append([]string{"type", "name", "retry"}, keysOf[s.kind]...)...)
	r.retry(v)
	switch s.kind {
	case typeTask:
		r.Need(v, "the task", "handler")
	case typeWait:
		switch until := !v.Get("untilTimestamp").IsZero(); {
		case until:
			r.Ignored(v, "untilTimestamp comes before it", "durationMs")
		case v.Get("durationMs").IsZero():
			r.Fail(v.Pos(), "", "a wait has durationMs or untilTimestamp")
		}
		r.milliseconds(v, "durationMs", 0)
		if text := r.Text(v, "untilTimestamp"); text != "" {
			if _, err := time.Parse(time.RFC3339, text); err != nil {
				r.Fail(v.Get("untilTimestamp").Pos(), "write it as 2030-01-31T18:00:00Z",
					"untilTimestamp %q is not an instant", text)
			}
		}
	case typeCondition:
		r.Need(v, "the condition", "expression")
		r.Need(v, "the condition", "trueStep")
		r.Need(v, "the condition", "falseStep")
	case typeEvent:
		r.Need(v, "the external_event", "signalType")
		r.milliseconds(v, "timeoutMs", 1)
	case typeLLM:
		r.llm(v)
	case typeApproval:
		r.Need(v, "the approval", "contentKey")
		r.milliseconds(v, "timeoutMs", 1)
	}
	return s
}

// retry reports every field of a step's retry policy that is wrong. No field depends on another.
func (r *reader) retry(v tree.Value) {
	retry := v.Get("retry")
	if !retry.IsMapping() {
		_, err := Policy(form.Pick(v, "retry"))
		r.Policy(v, err)
		return
	}
	for _, field := range retry.Fields() {
		_, err := Policy(map[string]any{"retry": map[string]any{field.Name: field.Value.Any()}})
		r.Policy(v, err)
	}
}

// milliseconds reads an amount of time; 0 if it is absent.
func (r *reader) milliseconds(v tree.Value, key string, low int) time.Duration {
	return time.Duration(r.Whole(v, key, 0, low, int(math.MaxInt64/int64(time.Millisecond)))) * time.Millisecond
}

// jumps checks where a condition goes: to steps that there are, and forward.
func (r *reader) jumps(s *step, steps []*step) {
	if s.kind != typeCondition {
		return
	}
	var names []string
	for _, o := range steps {
		names = append(names, o.name)
	}
	for _, key := range []string{"trueStep", "falseStep"} {
		target := r.Text(s.in, key)
		i := slices.Index(names, target)
		switch {
		case target == "":
		case i < 0:
			r.Fail(s.in.Get(key).Pos(), nearest.Hint(target, names), "there is no step %q", target)
		case i <= s.index:
			r.Fail(s.in.Get(key).Pos(), "let a step retry, or start the definition again",
				"the condition %q jumps back to %q; a flow only goes forward", s.name, target)
		}
	}
}
