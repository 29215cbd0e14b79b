package aether

import (
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/policy"
)

// Policy translates the policy of one task, as a YAML or JSON decoder yields it:
//
//	{retry: {limit, expression}, timeout: 5m}
//
// Aether counts retries after the first attempt, and retries at once. Its timeout is a deadline from the first
// dispatch on that no retry resets, so once it has passed no time is left for a retry. A nil value stands for the
// defaults. Errors are [*decode.Error] values.
//
// An expression replaces the filter of failure kinds. It becomes the policy's When, with the names of [Env]; only
// names that an evaluator could not read are rewritten.
func Policy(v any) (policy.Policy, error) {
	f := decode.Read(v, "retry", "timeout")
	retry, err := readRetry(f.Value("retry"))
	f.Keep("retry", err)
	p := policy.Policy{Retry: retry}
	if f.Has("timeout") && f.Value("timeout") != "" { // an empty text means an omitted one
		p.Set(policy.LimitScheduleToClose, &policy.Limit{After: shortAmount(f, "timeout"), Origin: "timeout"})
	}
	if err := f.Err(); err != nil {
		return policy.Policy{}, err
	}
	return p, nil
}

func readRetry(v any) (*policy.Retry, error) {
	f := decode.Read(v, "limit", "expression")
	r := &policy.Retry{
		MaxAttempts:        1 + f.Int("limit", 0, 0, math.MaxInt32-1),
		BackoffCoefficient: 1,
		On:                 []policy.Kind{policy.KindError, policy.KindTimeout},
		When:               quoteNames(f.Text("expression")),
	}
	if r.When != "" && strings.TrimSpace(r.When) == "" {
		f.Fail("expression", "empty expression")
	}
	return r, f.Err()
}

// taskName matches a possible name of a task or an output parameter with a dash in it, or a quoted text, which contains
// no names. What follows a task's name is one of four words, so it cannot be mistaken for a subtraction. In a
// parameter's name, which may end the expression, a dash must be between letters: total-1 is a subtraction.
var taskName = regexp.MustCompile(`'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|` + "`[^`]*`" +
	`|\btasks\.[A-Za-z0-9_-]+(?:\.(?:phase|code|msg)\b|\.outputs\b(?:\.parameters\.\w+(?:-[A-Za-z_]\w*)*)?)`)

// quoteNames rewrites tasks.<name>.phase, .code, .msg and .outputs.parameters.<p> where a name is not an identifier,
// as in tasks.wait-external.phase, which an evaluator would read as a subtraction: it becomes
// tasks["wait-external"].phase. Everything else stays as it is.
func quoteNames(expression string) string {
	return taskName.ReplaceAllStringFunc(expression, func(found string) string {
		if !strings.HasPrefix(found, "tasks.") {
			return found
		}
		var b strings.Builder
		for i, part := range strings.Split(found, ".") {
			switch {
			case !identifier.MatchString(part):
				b.WriteString(`["` + part + `"]`)
			case i == 0:
				b.WriteString(part)
			default:
				b.WriteString("." + part)
			}
		}
		return b.String()
	})
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Env returns the names that an Aether expression may use about the attempt of a task that failed: tasks.<task>.phase,
// .code, .msg and .outputs.parameters.<p>.
func Env(task string, f *policy.Failure) map[string]any {
	return map[string]any{"tasks": map[string]any{task: map[string]any{
		"phase":   phaseOf(f.Kind),
		"code":    f.Code,
		"msg":     f.Message,
		"outputs": map[string]any{"parameters": map[string]any{}},
	}}}
}

// phaseOf returns Aether's word for a task that ended with a failure of this kind; the zero Kind is a success.
func phaseOf(kind policy.Kind) string {
	switch kind {
	case 0:
		return "Succeeded"
	case policy.KindFailed:
		return "Failed"
	case policy.KindTimeout:
		return "Timeout"
	case policy.KindCancelled:
		return "Cancelled"
	default: // a lost worker is an error like any other there
		return "Error"
	}
}

var shortUnits = regexp.MustCompile(`^(\d+(ms|s|m|h|d))+$`)

// shortAmount reads a limit's duration for systems that know only the short units: 500ms, 30s, 5m, 2h, 1d, and sums of
// them such as 1h30m. A number without a unit is refused, for the system would have refused or ignored it.
func shortAmount(f *decode.Fields, key string) time.Duration {
	text := f.Text(key)
	d, err := form.Amount(text)
	f.Keep(key, err)
	if !shortUnits.MatchString(text) {
		f.Fail(key, "%q: write numbers with the units ms, s, m, h or d, as in 30s", text)
	}
	return d
}
