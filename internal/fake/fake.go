// Package fake connects package pawltest to the engine: with it, fakes replace what workflows call: functions of steps,
// handlers, the workflows of child runs. An engine takes its fakes from the context with which it is opened, so that
// users see nothing of this in the root package.
package fake

import (
	"context"
	"reflect"
)

// Kind is the kind of thing that a fake replaces.
type Kind int

// The kinds.
const (
	Step  Kind = iota // the function of a step, named by the step's key
	Call              // a handler
	Child             // a workflow whose runs begin as children, or which has no function here
)

// Target is something that a fake may replace.
type Target struct {
	Kind    Kind
	Name    string       // the step's key, or the name of the handler or the workflow
	Run     string       // the run; of a Child: the child run
	In, Out reflect.Type // the types that the calling code gives and wants; nil: not known
}

// Func replaces a function. in decodes the input into the value that v points to; for a step there is none.
type Func func(ctx context.Context, in func(v any) error) (any, error)

// Table has the fakes of an engine. Its methods are called from many goroutines, and must not call the engine.
type Table interface {
	// Find returns the fake for the target, and notes that it was requested; nil: there is none. For a child run the
	// answer is always the first one.
	Find(t Target) Func
	// Has reports whether there is a fake for the target, without noting anything.
	Has(t Target) bool
	// Asked notes that a body calls a handler or begins a child run in the step of that name. It returns an error if a
	// fake of the target has other types.
	Asked(step string, t Target) error
	// StandsIn reports whether Find has returned a fake for the workflow of a run.
	StandsIn(run string) bool
	// Attach gives the table its engine, before runs go on.
	Attach(e EngineHooks)
}

// EngineHooks are a table's requests to its engine.
type EngineHooks struct {
	// Serve makes the engine execute calls of a handler on every task queue, also if the program does not serve it.
	Serve func(handler string) error
	// Registered tells the engine that there is a fake for another workflow.
	Registered func()
}

type key struct{}

// With returns a context with which an engine is opened that has fakes.
func With(ctx context.Context, t Table) context.Context { return context.WithValue(ctx, key{}, t) }

// From returns the fakes of a context, or nil if it has none.
func From(ctx context.Context) Table {
	t, _ := ctx.Value(key{}).(Table)
	return t
}
