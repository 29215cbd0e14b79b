package dialect

import (
	_ "embed"

	"github.com/pawl-dev/pawl/dialect/internal/options"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/policy"
)

// Forms are the systems whose policies may stand in a flow file, each below its own name:
//
//	temporal: {startToCloseTimeout: 10s, retryPolicy: {maximumAttempts: 5}}
//	zart: {timeout: 5m, timeout_scope: per_attempt, retry: "fixed(3, 1s)"}
//
// They are for [flow.Parse].
func Forms() []flow.Form {
	work := []string{"exec", "http", "task", "noop", "fail"}
	return []flow.Form{
		{
			Key: "temporal", Kinds: work, Schema: temporalSchema,
			Step: temporalStep, Complete: options.TemporalComplete, Run: temporalRun,
		},
		{
			Key: "zart", Kinds: append([]string{"flow", "wait"}, work...), Schema: zartSchema,
			Step: zartStep, Run: zartRun,
		},
	}
}

//go:embed schema/temporal.json
var temporalSchema []byte

//go:embed schema/zart.json
var zartSchema []byte

// without are fields of a system that mean nothing here, and why.
type without []struct{ key, why string }

func (w without) keys() []string {
	keys := make([]string, len(w))
	for i, field := range w {
		keys[i] = field.key
	}
	return keys
}

// notes tells those that are given.
func (w without) notes(f *policy.Fields, under ...string) []flow.Note {
	var out []flow.Note
	for _, field := range w {
		if f.Has(field.key) {
			path := append(append([]string(nil), under...), field.key)
			out = append(out, flow.Note{Path: path, Msg: field.key + " has no counterpart: " + field.why})
		}
	}
	return out
}
