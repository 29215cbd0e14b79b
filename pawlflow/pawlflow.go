// Package pawlflow runs flow documents as workflows of a Go program, beside its functions.
//
//	doc, err := flow.Parse("order.yaml", text)
//	order := pawlflow.Define[Order, Receipt](doc)
//	run, err := order.Start(ctx, engine, "order-42", Order{…})
//
// A program that imports it carries on all open flow runs of its database, including those that "pawl run" started
// there, and those of flows that it no longer defines. A program that does not import it sets them aside.
package pawlflow

import (
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/kind"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/option"
)

func init() { kind.Register(flowkind.Plugin) }

// Define makes a workflow of a flow document: one that [flow.Parse] read, or that a dialect's Convert made from another
// system's. It is started, found, scheduled and called as a child like any other. A child flow that its steps start is
// looked up by name among the workflows that the engine knows; it may be a function. Runs keep the text they started
// with, also when another one takes its name later.
//
// Steps with exec and http work as they do on the command line, in the program's working directory, but keep no
// logs; a task step is executed by the [pawl.Handler] of its type that an engine serves on its queue
// ([pawl.Engine.Serve]). A flow's values are JSON whatever [pawl.Config.Codec] is; so a child of its that is a
// function needs the codec [pawl.JSON].
//
// What is wrong with the document is the workflow's Err, as with [pawl.Define].
func Define[In, Out any](doc *flow.Document) *pawl.Workflow[In, Out] {
	if doc == nil {
		return define[In, Out]("", nil, errors.New("there is no document"))
	}
	w, err := workflow(doc)
	return define[In, Out](doc.Name, w, err)
}

func define[In, Out any](name string, w *kind.Foreign, err error) *pawl.Workflow[In, Out] {
	return pawl.Define[In, Out](name, nil, option.Document(w, err).(pawl.Option))
}

func workflow(doc *flow.Document) (*kind.Foreign, error) {
	f, err := flowkind.Of(doc)
	if err != nil {
		return nil, err
	}
	if err := f.Bundle.Circle(doc); err != nil {
		return nil, err
	}
	source, err := f.Bundle.Definition(doc.Name)
	if err != nil {
		return nil, err
	}
	return &kind.Foreign{
		Source: source, Definition: f.Definition, Begin: f.Document.Start,
		Rerun: func(earlier *core.Run, steps []string, from bool) ([]core.Kept, error) {
			return flow.Rerun(f.Document, earlier, steps, from)
		},
	}, nil
}
