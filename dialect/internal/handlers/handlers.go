// Package handlers reads the file that defines the executors or handlers of another system: a command, a request, or a
// worker's function.
//
//	handlers:
//	  charge: {exec: {command: [./charge.sh]}}
//	  notify: {http: {url: "http://localhost:8080/notify"}}
//	  render: {task: {queue: media, type: Render}}
package handlers

import (
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// Handler is one entry of the file.
type Handler struct {
	kind  string
	value tree.Value
	file  *form.File
	// Flow is the name of the flow that the handler runs; Wait means that it waits for an event.
	Flow string
	Wait bool
	// Suspends means that the handler may answer that the task waits for an event.
	Suspends bool
	Pos      tree.Pos
}

// suspends is the key of a handler whose answer may be that its task waits. It can be combined with any kind of
// handler.
const suspends = "suspends"

// Read reads the file. kinds are further kinds that the system allows: flow and wait; and suspends, which is an option.
func Read(f *form.File, kinds ...string) map[string]*Handler {
	out := map[string]*Handler{}
	root := f.Root()
	if !f.Object(root, "a file of handlers", "handlers") {
		return out
	}
	list := root.Get("handlers")
	if !list.IsMapping() {
		f.Fail(root.Pos(), "write handlers: and below it a name and what it runs", "the file has no handlers")
		return out
	}
	known := append([]string{"exec", "http", "task"}, kinds...)
	for _, field := range list.Fields() {
		v := field.Value
		if !f.Object(v, "a handler", known...) {
			if v.Fields() == nil {
				f.Fail(field.Pos, "write exec: {command: [./program]}, or http: {url: …}",
					"handler %q does nothing", field.Name)
			}
			continue
		}
		does := slices.DeleteFunc(v.Fields(), func(f tree.Field) bool { return f.Name == suspends })
		if len(does) != 1 {
			f.Fail(field.Pos, "", "handler %q is one of exec, http and task", field.Name)
			continue
		}
		h := &Handler{
			kind: does[0].Name, value: does[0].Value, file: f, Pos: field.Pos, Suspends: f.Bool(v, suspends),
		}
		if h.Suspends && (h.kind == "flow" || h.kind == "wait") {
			f.Fail(v.Key(suspends), "", "suspends belongs to a handler that runs something, not to %s", h.kind)
		}
		h.check(v)
		out[field.Name] = h
	}
	return out
}

func (h *Handler) check(in tree.Value) {
	f, v := h.file, h.value
	switch h.kind {
	case "exec":
		if v.IsMapping() {
			f.Object(v, "exec", "command", "shell", "env", "dir")
			if command := v.Get("command"); !command.IsZero() && len(command.Items()) == 0 {
				f.Fail(command.Pos(), "write [program, argument]", "command is a list of texts, not %s", command)
			}
			if v.Get("command").IsZero() == v.Get("shell").IsZero() {
				f.Fail(v.Pos(), "", "exec takes command or shell, one of them")
			}
		} else if _, ok := v.Text(); !ok && len(v.Items()) == 0 {
			f.Fail(v.Pos(), "", "exec is a command, not %s", v)
		}
	case "http":
		if _, ok := v.Text(); !ok && f.Object(v, "http", "method", "url", "headers", "expect") {
			f.Need(v, "http", "url")
		}
	case "task":
		if f.Object(v, "task", "queue", "type") {
			f.Need(v, "task", "type")
		}
	case "flow":
		h.Flow = f.Text(in, "flow")
	case "wait":
		h.Wait = true
	}
}

// Nearest hints at the handler whose name is closest.
func Nearest(name string, all map[string]*Handler) string {
	return nearest.Hint(name, slices.Sorted(maps.Keys(all)))
}

// Action makes a step's action. input is an expression for the handler's input: a process reads it as JSON from its
// standard input, a request has it as its body, a function takes it as its input.
func (h *Handler) Action(input string) flow.Action {
	v := h.value
	data := flow.V("${{ " + input + " }}")
	switch h.kind {
	case "http":
		a := &flow.HTTP{Method: flow.V("POST"), URL: plain(v), JSON: data}
		if v.IsMapping() {
			a.URL, a.Headers, a.Expect = plain(v.Get("url")), plain(v.Get("headers")), plain(v.Get("expect"))
			if method := v.Get("method"); !method.IsZero() {
				a.Method = plain(method)
			}
		}
		return a
	case "task":
		kind, _ := v.Get("type").Text()
		queue, _ := v.Get("queue").Text()
		return &flow.Task{Type: kind, Queue: queue, Input: data}
	}
	a := &flow.Exec{Stdin: data, Results: "lines"} // a handler is written for Pawl: what it prints is its answer
	switch {
	case v.IsList():
		a.Command = plain(v)
	case v.IsMapping():
		a.Command, a.Shell, a.Env, a.Dir = plain(v.Get("command")), plain(v.Get("shell")),
			plain(v.Get("env")), plain(v.Get("dir"))
	default:
		a.Shell = plain(v)
	}
	return a
}

// plain removes a value from its file: its places are not the flow's.
func plain(v tree.Value) tree.Value {
	if v.IsZero() {
		return v
	}
	return flow.V(v.Any())
}

// Output gives the expression for the result of a step with the handler, nil if it did not get that far.
func (h *Handler) Output(step string) string {
	return h.Returned("steps[" + form.Expr(step) + "].output")
}

// Returned gives the expression for the handler's result, from one for the output of its attempt.
func (h *Handler) Returned(output string) string {
	if h.kind == "http" {
		return output + "?.json"
	}
	return output
}
