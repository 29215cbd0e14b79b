package pawl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/worker"
)

// WorkflowOf makes a workflow of something else than a function. It is for packages of this module: package pawlflow makes
// workflows of flow documents with it. err is what is wrong with w.
func WorkflowOf[In, Out any](name string, w *kind.Workflow, err error) *Workflow[In, Out] {
	d := &definition{name: name, document: w}
	if name != "" || err == nil {
		err = errors.Join(checkName(name), err)
	}
	if err == nil {
		err = checkTypes(w.Definition)
	}
	d.note(invalid(err, "flow %q", name))
	return &Workflow[In, Out]{def: d}
}

// checkTypes refuses tasks that would be taken for a function's own.
func checkTypes(def *core.Definition) error {
	for _, spec := range def.Specs {
		if spec.Type == body.TypeLocal || spec.Type == body.TypeHook || spec.Type == body.TypeMark {
			return fmt.Errorf("step %q: tasks of the type %q are what the engine does itself: give the type another name", spec.Name, spec.Type)
		}
	}
	return nil
}

// codec is what the workflow's values are encoded with.
func (d *definition) codec(c Codec) Codec {
	if d.document != nil {
		return JSON{}
	}
	return c
}

// same reports whether two definitions are one and the same.
func (d *definition) same(o *definition) bool {
	return d == o || d.document != nil && o.document != nil && d.document.Source.ID == o.document.Source.ID
}

// source is what is stored of the workflow with its runs.
func (d *definition) source() journal.Definition {
	if d.document != nil {
		return d.document.Source
	}
	return source(d.name)
}

// kinds are the workflows that a program can run: functions, and those of the packages that it
// links. Flows that it does not link are set aside.
func (h *host) kinds(j journal.Journal) map[string]engine.Kind {
	out := map[string]engine.Kind{
		journal.KindFlow: {Refuse: notLinked}, journal.KindBundle: {Refuse: notLinked},
		journal.KindGo: {
			Compile: h.compile, Bodies: h.bodies,
			Resolve: func(_ core.DefinitionID, name string) (journal.Definition, error) { return h.stored(name) },
		},
	}
	for _, p := range kind.Plugins() {
		maps.Copy(out, p.Kinds(j, h.stored))
	}
	return out
}

func notLinked(d journal.Definition) error {
	return fmt.Errorf("workflow %q is a flow document, and this program does not link what runs them: "+
		`import _ "github.com/pawl-dev/pawl/pawlflow"`, d.Name)
}

// documented executes what steps do without a function: processes and requests. Observers hear of them, and an interceptor
// may stand in for them.
type documented struct {
	host     *host
	executor worker.Executor
}

// Announces says that the host does it.
func (d *documented) Announces() {}

func (d *documented) Execute(ctx context.Context, t core.Task, alive worker.Alive) worker.Result {
	at := &attempt{Context: ctx, task: t, alive: alive, codec: JSON{}}
	abandoned := false
	var own body.Stopping
	res := d.host.call(at, &own, func(ctx context.Context) ([]byte, error) {
		var r worker.Result
		own.Work(func() { r = d.executor.Execute(ctx, t, alive) })
		abandoned = r.Abandoned
		return r.Output, decodeFailure(r.Failure)
	})
	if !res.Abandoned { // else the call may still be writing
		res.Abandoned = abandoned
	}
	return res
}

// executors are those of the packages that the program links. Executors that take no time stay as they are: the pool knows
// them.
func (h *host) executors(owner string) map[string]worker.Executor {
	out := map[string]worker.Executor{}
	for _, p := range kind.Plugins() {
		maps.Copy(out, p.Executors(worker.ExecConfig{Owner: owner, Grace: h.grace, Log: h.log}))
	}
	for name, executor := range out {
		if _, instant := executor.(worker.Instant); !instant {
			out[name] = &documented{h, executor}
		}
	}
	return out
}

// endLeftovers ends the processes that outlived a killed program.
func endLeftovers(owner string) error {
	var errs []error
	for _, p := range kind.Plugins() {
		errs = append(errs, p.EndLeftovers(owner))
	}
	return errors.Join(errs...)
}

// begin completes a start by what the document says: its limits and the defaults of its input, which is checked.
func (d *definition) begin(req *engine.StartRequest) error {
	if d.document == nil {
		return nil
	}
	s, err := d.document.Begin(req.Input)
	if err != nil {
		return invalid(err, "start %q", d.name)
	}
	req.Input, req.Execution, req.Run = s.Input, s.Execution, s.Run
	if req.ExecutionAt.At == 0 || s.ExecutionAt.At != 0 && s.ExecutionAt.At < req.ExecutionAt.At {
		req.ExecutionAt = s.ExecutionAt
	}
	return nil
}

// ownerOf marks the processes of a database's steps, so that those which outlive a killed program are ended before anything is
// tried again; "": nothing outlives it that could be.
func ownerOf(database string) string {
	scheme, name, _ := strings.Cut(database, ":")
	if database == "" || scheme == "memory" {
		return ""
	}
	return worker.OwnerOf(name)
}
