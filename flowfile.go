package pawl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/worker"
)

// flowWorkflow is a workflow that a flow document decides, and not a function.
type flowWorkflow struct {
	doc    *flow.Document
	def    *core.Definition
	source journal.Definition
}

// DefineFlow makes a workflow of a flow document: one that flow.Parse read, or that a dialect's Convert made of another
// system's. It is started, found, scheduled and called as a child like any other; a child flow that its steps start is
// looked up by name among the workflows that the engine knows. Runs keep the text they started with, also when another one
// takes its name later.
//
// Steps with exec and http work as they do on the command line, in the program's working directory, but keep no logs; a
// task step is executed by the [Handler] of its type that an engine serves on its queue ([Engine.Serve]). A flow's values
// are JSON whatever [Config.Codec] is; so a child of its that is a function needs the codec [JSON].
func DefineFlow[In, Out any](doc *flow.Document) *Workflow[In, Out] {
	d := &definition{}
	var err error
	if doc == nil {
		err = errors.New("there is no document")
	} else {
		d.name = doc.Name
		if d.flow, err = newFlow(doc); err == nil {
			err = d.flow.checkTypes()
		}
	}
	d.note(invalid(err, "flow %q", d.name))
	return &Workflow[In, Out]{def: d}
}

// flowSource is what is stored of a flow.
type flowSource struct {
	File string `json:"file"` // as errors and limits name it
	Text string `json:"text"`
}

func newFlow(doc *flow.Document) (*flowWorkflow, error) {
	if err := checkName(doc.Name); err != nil {
		return nil, err
	}
	text, err := flow.Encode(doc)
	if err != nil {
		return nil, err
	}
	if f, err := storedFlow(doc.Name, flowSource{doc.File, string(doc.Source())}); err == nil {
		if same, err := flow.Encode(f.doc); err == nil && bytes.Equal(same, text) {
			return f, nil // its places are those of the file
		}
	}
	// It was built or changed in code, or has words of another system, which only its native text does without.
	return storedFlow(doc.Name, flowSource{doc.Name + ".yaml", string(text)})
}

func storedFlow(name string, src flowSource) (*flowWorkflow, error) {
	b, err := json.Marshal(src)
	if err != nil {
		return nil, err
	}
	return readFlow(journal.Definition{ID: flow.ID(b), Kind: journal.KindFlow, Name: name, Source: b})
}

// readFlow makes a flow of what is stored of it.
func readFlow(d journal.Definition) (*flowWorkflow, error) {
	if flow.ID(d.Source) != d.ID {
		return nil, fmt.Errorf("%w: the stored text of flow %q is not the one it was started with", journal.ErrCorrupt, d.Name)
	}
	var src flowSource
	if err := json.Unmarshal(d.Source, &src); err != nil {
		return nil, fmt.Errorf("the stored text of flow %q: %w", d.Name, err)
	}
	doc, err := flow.Parse(src.File, []byte(src.Text))
	if err != nil {
		return nil, err
	}
	def, err := flow.Compile(doc)
	if err != nil {
		return nil, err
	}
	return &flowWorkflow{doc: doc, def: def, source: d}, nil
}

// compileFlow makes the machine's definition of what is stored of a flow.
func compileFlow(d journal.Definition) (*core.Definition, error) {
	f, err := readFlow(d)
	if err != nil {
		return nil, err
	}
	return f.def, nil
}

// checkTypes refuses tasks that would be taken for a function's own.
func (f *flowWorkflow) checkTypes() error {
	for _, spec := range f.def.Specs {
		if spec.Type == body.TypeLocal || spec.Type == body.TypeHook || spec.Type == body.TypeMark {
			return fmt.Errorf("step %q: tasks of the type %q are what the engine does itself: give the type another name", spec.Name, spec.Type)
		}
	}
	return nil
}

// codec is what the workflow's values are encoded with.
func (d *definition) codec(c Codec) Codec {
	if d.flow != nil {
		return JSON{}
	}
	return c
}

// same reports whether two definitions are one and the same.
func (d *definition) same(o *definition) bool {
	return d == o || d.flow != nil && o.flow != nil && d.flow.source.ID == o.flow.source.ID
}

// source is what is stored of the workflow with its runs.
func (d *definition) source() journal.Definition {
	if d.flow != nil {
		return d.flow.source
	}
	return source(d.name)
}

// builtin executes what flows do without a function: processes and requests. Observers hear of them, and an interceptor
// may stand in for them.
type builtin struct {
	host     *host
	executor worker.Executor
}

// Announces says that the host does it.
func (b *builtin) Announces() {}

func (b *builtin) Execute(ctx context.Context, t core.Task, alive worker.Alive) worker.Result {
	at := &attempt{Context: ctx, task: t, alive: alive, codec: JSON{}}
	abandoned := false
	var own body.Stopping
	res := b.host.call(at, &own, func(ctx context.Context) ([]byte, error) {
		var r worker.Result
		own.Work(func() { r = b.executor.Execute(ctx, t, alive) })
		abandoned = r.Abandoned
		return r.Output, decodeFailure(r.Failure)
	})
	if !res.Abandoned { // else the call may still be writing
		res.Abandoned = abandoned
	}
	return res
}

// builtins are the executors of flows' steps. Those that take no time stay as they are: the pool knows them.
func (h *host) builtins(owner string) map[string]worker.Executor {
	out := worker.Builtin(worker.ExecConfig{Owner: owner, Grace: h.grace, Log: h.log})
	for name, executor := range out {
		if _, instant := executor.(worker.Instant); !instant {
			out[name] = &builtin{h, executor}
		}
	}
	return out
}

// begin completes a start by what the flow says: its limits and the defaults of its input, which is checked.
func (f *flowWorkflow) begin(req *engine.StartRequest) error {
	s, err := f.doc.Start(req.Input)
	if err != nil {
		return invalid(err, "start %q", f.doc.Name)
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
