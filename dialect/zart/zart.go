// Package zart gives steps and workflows Zart's attributes, with Zart's rules, for programs that come with them.
//
//	pawl.Step(ctx, "call-api", call, zart.Step(zart.StepAttributes{
//		Timeout: "30s", TimeoutScope: zart.PerAttempt, Retry: "fixed(3, 1s)",
//	}))
package zart

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dialect/zart/zartform"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/option"
)

// Scope is the part of a step's life that its timeout covers.
type Scope string

// The scopes.
const (
	Global     Scope = "global"      // all attempts, from the first scheduling on (the default)
	PerAttempt Scope = "per_attempt" // each attempt, from its start
)

// StepAttributes are the attributes of #[zart_step(…)]. A timeout ends the step in both scopes: only errors are
// retried.
type StepAttributes struct {
	Timeout      string // one number and s, m, h or d: "30s"; default none
	TimeoutScope Scope
	Retry        string // "fixed(3, 1s)" or "exponential(5, 1s)", the number is attempts in all; default one attempt
}

// Step gives a step its attributes. They are its whole policy: they replace the defaults, and later options in the list
// replace a part of them. What is wrong with them the step returns, by the attribute's name.
func Step(a StepAttributes) pawl.StepOption {
	fields := map[string]any{}
	for name, text := range map[string]string{
		"timeout": a.Timeout, "timeout_scope": string(a.TimeoutScope),
		"retry": a.Retry,
	} {
		if text != "" {
			fields[name] = text
		}
	}
	return option.Policy(zartform.Policy(fields)).(pawl.StepOption)
}

// HandlerAttributes are the attributes of #[zart_durable(…)]; the hook for a failure is [pawl.OnFailure].
type HandlerAttributes struct {
	Timeout string // timeout of the execution, from its start: "30m"; default none
}

// Handler gives a workflow's definition the attributes of a handler. What is wrong with them its Err returns.
func Handler(a HandlerAttributes) pawl.Option {
	opts, err := a.options()
	return option.Several(opts, err).(pawl.Option)
}

func (a HandlerAttributes) options() ([]pawl.Option, error) {
	if a.Timeout == "" {
		return nil, nil
	}
	f := decode.Read(map[string]any{"timeout": a.Timeout}, "timeout")
	limit := zartform.Timeout(f)
	if f.Err() != nil {
		return nil, f.Err()
	}
	return []pawl.Option{pawl.ExecutionTimeout(limit.After)}, nil
}
