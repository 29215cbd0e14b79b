// Package zartform reads Zart's attributes: those of a step and of a handler, in flow files below the key zart and in
// Go programs. It does not need the engine.
//
// The Origin of every limit and retry policy is the name of the attribute that set it.
package zartform

import (
	_ "embed"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/policy"
)

// Form returns Zart's words for flow files, which are below the key zart.
func Form() flow.Form {
	return flow.Form{
		Key: "zart", Kinds: []string{"flow", "wait", "exec", "http", "task", "noop", "fail"}, Schema: schema,
		Step: readStep, Run: readRun,
	}
}

//go:embed schema.json
var schema []byte

// readStep reads a step's attributes. An event wait has only a timeout.
func readStep(fields any, kind string) (flow.Settings, []flow.Note, error) {
	if kind != "wait" {
		p, err := Policy(fields)
		return flow.Settings{Policy: p}, nil, err
	}
	f := decode.Read(fields, "retry", "timeout", "timeout_scope")
	for _, key := range []string{"retry", "timeout_scope"} {
		if f.Has(key) {
			f.Fail(key, "an event wait has no attempts, only a timeout")
		}
	}
	var s flow.Settings
	s.Policy.Set(policy.LimitWait, Timeout(f))
	return s, nil, f.Err()
}

// readRun reads the attributes of a handler. Its timeout bounds the execution from its start.
func readRun(fields any) (flow.RunSettings, []flow.Note, error) {
	f := decode.Read(fields, "timeout", "on_failure")
	if f.Has("on_failure") {
		f.Fail("on_failure", "a flow says what it runs then: hooks: {onFailure: {exec: …}}")
	}
	var s flow.RunSettings
	s.Limits.Execution = Timeout(f)
	return s, nil, f.Err()
}
