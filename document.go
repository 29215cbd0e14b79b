package pawl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/worker"
)

// WorkflowOf makes a workflow from a document instead of a function. It is for packages of this module: package
// pawlflow makes workflows of flow documents with it. err is what is wrong with w.
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
		if spec.Type == body.TypeLocal || spec.Type == body.TypeHook || body.Notes(spec.Type) {
			return fmt.Errorf("step %q: tasks of the type %q are what the engine does itself: "+
				"give the type another name", spec.Name, spec.Type)
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

// same reports whether two definitions are equal.
func (d *definition) same(o *definition) bool {
	return d == o || d.document != nil && o.document != nil && d.document.Source.ID == o.document.Source.ID
}

// source is what is stored of the workflow with its runs.
func (d *definition) source() journal.Definition {
	if d.document != nil {
		return d.document.Source
	}
	known := d.known.Load()
	if known == nil {
		s := source(d.name)
		known = &s
		d.known.Store(known)
	}
	return *known
}

// kinds are the workflows that a program can run without another package: functions. Flows are refused until package
// pawlflow adds them.
func (h *host) kinds() map[string]engine.Kind {
	return map[string]engine.Kind{
		journal.KindFlow: {Refuse: notLinked}, journal.KindBundle: {Refuse: notLinked},
		journal.KindGo: {
			Compile: h.compile, Bodies: h.bodies,
			Resolve: func(_ core.DefinitionID, name string) (journal.Definition, error) { return h.stored(name) },
		},
	}
}

func notLinked(d journal.Definition) error {
	return fmt.Errorf("workflow %q is a flow document, and this program does not link what runs them: "+
		`import _ "github.com/pawl-dev/pawl/pawlflow"`, d.Name)
}

// documented executes what steps do without a function: processes and requests. An interceptor may stand in for
// them.
type documented struct {
	host     *host
	executor worker.Executor
}

// Announces says that the host does it.
func (d *documented) Announces() {}

func (d *documented) Execute(ctx context.Context, t core.Task, alive worker.Alive) worker.Result {
	at := d.host.attempt(ctx, t, alive, JSON{})
	abandoned := false
	var own body.Stopping
	res := d.host.call(ctx, at, &own, d.host.fakedOr(JSON{}, nil, func(ctx context.Context) ([]byte, error) {
		var r worker.Result
		t.Headers = d.host.forwarded(ctx, &t)
		own.Work(func() { r = d.executor.Execute(ctx, t, alive) })
		abandoned = r.Abandoned
		return r.Output, decodeFailure(r.Failure)
	}))
	res.Abandoned = abandoned
	return res
}

// documented wraps the executors of documents' steps with the interceptor. Executors whose steps take
// no time stay as they are, since the pool has to recognise them.
func (h *host) documented(executors map[string]worker.Executor) map[string]worker.Executor {
	for name, executor := range executors {
		if _, instant := executor.(worker.Instant); !instant {
			executors[name] = &documented{h, executor}
		}
	}
	return executors
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

// ownerOf marks the processes of a database's steps, so that those which outlive a killed program are ended before
// anything is tried again; "": nobody looks for them. Only a file tells that the program which started them is gone: on
// a server's database another one on this machine may be alive.
func ownerOf(database string) string {
	if scheme, name, _ := strings.Cut(database, ":"); scheme == "sqlite" {
		return worker.OwnerOf(name)
	}
	return ""
}
