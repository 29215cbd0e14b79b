// Package cases reads policy cases and runs them in virtual time. A case is a policy, a script for the attempts of a
// step, and the expected result. `pawl policy simulate` and the conformance tests use it.
package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/expr-lang/expr"
	"github.com/goccy/go-yaml"

	"github.com/pawl-dev/pawl/dialect/aether"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// Case is one policy case as a file holds it.
type Case struct {
	Name        string           `yaml:"name"`
	Dialect     string           `yaml:"dialect"`
	Policy      any              `yaml:"policy"`
	Task        string           `yaml:"task"`
	Script      []map[string]any `yaml:"script"`
	Random      float64          `yaml:"random"`
	RunDeadline any              `yaml:"runDeadline"`
	MaxSteps    int              `yaml:"maxSteps"`
	Expect      map[string]any   `yaml:"expect"`
}

// Result is the result of a case, with the same fields as its expectation. All times are milliseconds since the step
// was first scheduled.
type Result struct {
	Name     string    `json:"name" yaml:"name"`
	Attempts []Attempt `json:"attempts" yaml:"attempts"`
	Phase    string    `json:"phase" yaml:"phase"`
	Reason   string    `json:"reason" yaml:"reason"`
	At       int64     `json:"at" yaml:"at"`
}

// Attempt is one attempt of a result.
type Attempt struct {
	At      int64  `json:"at" yaml:"at"`
	Started *int64 `json:"started,omitempty" yaml:"started,omitempty"`
	Ended   *int64 `json:"ended,omitempty" yaml:"ended,omitempty"`
	End     string `json:"end,omitempty" yaml:"end,omitempty"`
	Limit   string `json:"limit,omitempty" yaml:"limit,omitempty"`
}

// Load reads a file of cases, YAML or JSON.
func Load(path string) ([]Case, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, src)
}

// Parse reads cases from a file's text.
func Parse(path string, src []byte) ([]Case, error) {
	var list []Case
	if err := yaml.UnmarshalWithOptions(src, &list, yaml.Strict()); err != nil {
		return nil, withPosition(path, err)
	}
	for i := range list {
		if list[i].Name == "" {
			list[i].Name = fmt.Sprintf("case %d", i+1)
		}
		if list[i].Dialect == "" {
			list[i].Dialect = "native"
		}
	}
	return list, nil
}

// withPosition adds file, line and column to an error of the YAML library.
func withPosition(path string, err error) error {
	e, ok := errors.AsType[yaml.Error](err)
	if !ok || e.GetToken() == nil || e.GetToken().Position == nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	at := e.GetToken().Position
	const form = "a file of cases is a list: - {name: …, policy: …, script: […], expect: …}"
	return fmt.Errorf("%s:%d:%d: %s; %s", path, at.Line, at.Column, e.GetMessage(), form)
}

// Run runs the case through the policy simulator.
func (c Case) Run() (Result, error) {
	sc, err := c.scenario()
	if err != nil {
		return Result{}, fmt.Errorf("case %q: %w", c.Name, err)
	}
	sim, err := core.Simulate(sc)
	if err != nil {
		return Result{}, fmt.Errorf("case %q: %w", c.Name, err)
	}
	return c.result(sim), nil
}

func (c Case) scenario() (core.Scenario, error) {
	p, err := translate(c.Dialect, c.Policy)
	if err != nil {
		return core.Scenario{}, decode.Under(err, "policy")
	}
	random := c.Random
	sc := core.Scenario{Policy: p, Random: &random, MaxAttempts: c.MaxSteps, Match: c.match}
	if c.RunDeadline != nil {
		if sc.RunDeadline, err = decode.Duration(c.RunDeadline); err != nil {
			return sc, decode.Under(err, "runDeadline")
		}
	}
	if len(c.Script) == 0 {
		return sc, errors.New("script: at least one attempt must be described")
	}
	for i, m := range c.Script {
		act, err := readAct(m)
		if err != nil {
			return sc, decode.Under(err, "script", fmt.Sprint(i))
		}
		sc.Script = append(sc.Script, act)
	}
	return sc, nil
}

func readAct(m map[string]any) (core.Act, error) {
	f := decode.Read(m, "queue", "run", "end", "type", "nonRetryable", "retryAfter", "output", "heartbeat")
	act := core.Act{End: f.Text("end"), Type: f.Text("type")}
	duration := func(key string) (d time.Duration) {
		if f.Has(key) {
			var err error
			d, err = decode.Duration(f.Value(key))
			f.Keep(key, err)
		}
		return d
	}
	act.Queue = duration("queue")
	act.Run = duration("run")
	if f.Has("retryAfter") {
		d := duration("retryAfter")
		act.RetryAfter = &d
	}
	offsets := func(key string) (out []time.Duration) {
		list, _ := f.Value(key).([]any)
		for _, v := range list {
			d, err := decode.Duration(v)
			f.Keep(key, err)
			out = append(out, d)
		}
		return out
	}
	act.Output = offsets("output")
	act.Heartbeat = offsets("heartbeat")
	act.NonRetryable, _ = f.Value("nonRetryable").(bool)
	switch act.End {
	case "ok", "error", "failed", "hang", "lost":
	default:
		f.Fail("end", "unknown end %q; use ok, error, failed, hang or lost", act.End)
	}
	return act, f.Err()
}

// match evaluates a When expression. It has the names that a flow's expressions, and Aether's, have for a failed
// attempt.
func (c Case) match(when string, f *policy.Failure, attempt int) judge.Match {
	task := c.Task
	if task == "" {
		task = "step"
	}
	env := aether.Env(task, f)
	env["attempt"] = attempt
	env["code"] = f.Code
	env["failure"] = map[string]any{
		"kind": f.Kind.String(), "type": f.Type, "message": f.Message, "code": f.Code, "limit": f.Limit.String(),
	}
	v, err := expr.Eval(when, env)
	if err != nil {
		return judge.Match{Error: err.Error()}
	}
	matched, ok := v.(bool)
	if !ok {
		return judge.Match{Error: fmt.Sprintf("%q is %T, not a boolean", when, v)}
	}
	return judge.Match{Matched: matched}
}

func (c Case) result(sim core.Simulated) Result {
	r := Result{Name: c.Name, Attempts: []Attempt{}, Phase: sim.Phase.String(), At: sim.At.Milliseconds()}
	if sim.Reason != policy.ReasonNone {
		r.Reason = sim.Reason.String()
	}
	for _, a := range sim.Attempts {
		out := Attempt{At: a.At.Milliseconds(), End: a.End}
		if a.Started != nil {
			ms := a.Started.Milliseconds()
			out.Started = &ms
		}
		if a.Ended != nil {
			ms := a.Ended.Milliseconds()
			out.Ended = &ms
		}
		switch a.Limit {
		case policy.LimitNone:
		case policy.LimitExecution, policy.LimitRun:
			out.Limit = "runDeadline"
		default:
			out.Limit = a.Limit.String()
		}
		r.Attempts = append(r.Attempts, out)
	}
	return r
}

// Check compares a result with the case's expectation. It compares only the fields that the expectation has. The error
// shows the first difference with both values.
func (c Case) Check(r Result) error {
	if c.Expect == nil {
		return fmt.Errorf("case %q expects nothing; add expect", c.Name)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		return err
	}
	if diff := difference("", c.Expect, got); diff != "" {
		want, err := json.Marshal(c.Expect)
		if err != nil {
			return err
		}
		return fmt.Errorf("case %q: %s\n  expected %s\n  got      %s", c.Name, diff, want, text)
	}
	return nil
}

// difference describes the first field in which got differs from want. It is empty if there is none. A null in want
// means that the field must be absent.
func difference(path string, want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for _, k := range []string{"attempts", "at", "started", "ended", "end", "limit", "phase", "reason"} {
			if w, ok := want[k]; ok {
				if d := difference(path+"."+k, w, g[k]); d != "" {
					return d
				}
			}
		}
		return ""
	case []any:
		g, _ := got.([]any)
		if len(g) != len(want) {
			return fmt.Sprintf("%s: expected %d, got %d", path[1:], len(want), len(g))
		}
		for i := range want {
			if d := difference(fmt.Sprintf("%s[%d]", path, i), want[i], g[i]); d != "" {
				return d
			}
		}
		return ""
	default:
		if scalar(want) != scalar(got) {
			return fmt.Sprintf("%s: expected %s, got %s", path[1:], scalar(want), scalar(got))
		}
		return ""
	}
}

// scalar writes a number, a text or nothing as text. Numbers look the same whatever type the decoder used.
func scalar(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case float64:
		return fmt.Sprint(int64(v))
	default:
		return fmt.Sprint(v)
	}
}
