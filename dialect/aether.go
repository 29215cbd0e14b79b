package dialect

import (
	"math"
	"regexp"
	"strings"

	"github.com/pawl-dev/pawl/policy"
)

// aether counts retries after the first attempt, and retries at once. Its timeout is a deadline from the first
// dispatch that no retry resets, so once it has passed there is nothing left to retry into.
//
// An expression replaces the filter of failure kinds. It becomes the policy's When and is left to the evaluator of
// expressions, which gives it the names that [AetherEnv] makes; only names it could not read are rewritten, see
// [AetherExpression].
func aether(v any) (policy.Policy, error) {
	f := policy.ReadFields(v, "retry", "timeout")
	retry, err := aetherRetry(f.Value("retry"))
	f.Keep("retry", err)
	p := policy.Policy{Retry: retry}
	if f.Has("timeout") {
		p.Set(policy.LimitScheduleToClose, &policy.Limit{After: shortAmount(f, "timeout"), Origin: "timeout"})
	}
	return p, f.Err()
}

func aetherRetry(v any) (*policy.Retry, error) {
	f := policy.ReadFields(v, "limit", "expression")
	r := &policy.Retry{
		MaxAttempts:        1 + f.Int("limit", 0, 0, math.MaxInt32-1),
		BackoffCoefficient: 1,
		On:                 []policy.Kind{policy.KindError, policy.KindTimeout},
		When:               AetherExpression(f.Text("expression")),
	}
	if f.Has("expression") && strings.TrimSpace(r.When) == "" {
		f.Fail("expression", "empty expression")
	}
	return r, f.Err()
}

// aetherName finds what may be a task's or an output parameter's name with a dash in it, or a quoted text, in which
// nothing is a name. What follows a task's name is one of four words, so it cannot be mistaken for a subtraction. In a
// parameter's name, which may end the expression, a dash must stand between letters: total-1 is a subtraction.
var aetherName = regexp.MustCompile(`'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|` + "`[^`]*`" +
	`|\btasks\.[A-Za-z0-9_-]+(?:\.(?:phase|code|msg)\b|\.outputs\.parameters\.\w+(?:-[A-Za-z_]\w*)*)`)

// AetherExpression rewrites tasks.<name>.phase, .code, .msg and .outputs.parameters.<p> where a name is no identifier,
// as in tasks.wait-external.phase, which an evaluator would read as a subtraction: it becomes
// tasks["wait-external"].phase. Everything else stays as it is.
func AetherExpression(expression string) string {
	return aetherName.ReplaceAllStringFunc(expression, func(found string) string {
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

// AetherEnv makes the names that an Aether expression may use about the attempt that just ended:
// tasks.<task>.phase, .code, .msg and .outputs.parameters.<p>.
func AetherEnv(task, phase string, code int, msg string, params map[string]any) map[string]any {
	if params == nil {
		params = map[string]any{}
	}
	return map[string]any{"tasks": map[string]any{task: map[string]any{
		"phase":   phase,
		"code":    code,
		"msg":     msg,
		"outputs": map[string]any{"parameters": params},
	}}}
}

// AetherPhase is Aether's word for a task that ended with a failure of this kind; the zero Kind is a success.
func AetherPhase(kind policy.Kind) string {
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
