package flow

import (
	"github.com/pawl-dev/pawl/internal/tree"
)

// overlay lays the settings of a step, a service or a hook over those below them.
func overlay(base, over Settings) Settings {
	out := base
	out.Policy = base.Policy.Overlay(over.Policy)
	if over.Queue != "" {
		out.Queue = over.Queue
	}
	if over.Priority != nil {
		out.Priority = over.Priority
	}
	if !over.Key.IsZero() {
		out.Key = over.Key
	}
	if over.Exec != nil {
		out.Exec = overExec(base.Exec, over.Exec)
	}
	if over.HTTP != nil {
		out.HTTP = overHTTP(base.HTTP, over.HTTP)
	}
	return out
}

func overExec(base, over *Exec) *Exec {
	if base == nil {
		return over
	}
	out := *over
	out.Env = overMapping(base.Env, over.Env)
	if out.Dir.IsZero() {
		out.Dir = base.Dir
	}
	if out.Interpreter.IsZero() {
		out.Interpreter = base.Interpreter
	}
	if out.Results == "" {
		out.Results = base.Results
	}
	if out.Grace == nil {
		out.Grace = base.Grace
	}
	out.Container = overContainer(base.Container, over.Container)
	return &out
}

func overHTTP(base, over *HTTP) *HTTP {
	if base == nil {
		return over
	}
	out := *over
	out.Headers = overMapping(base.Headers, over.Headers)
	if out.Expect.IsZero() {
		out.Expect = base.Expect
	}
	return &out
}

// overMapping merges two mappings key by key; a null in the upper one removes the key.
func overMapping(base, over tree.Value) tree.Value {
	if base.IsZero() || over.IsZero() {
		if over.IsZero() {
			return base
		}
		return over
	}
	out := &tree.Node{Kind: tree.Mapping, Pos: tree.NodeOf(over).Pos}
	for _, f := range tree.NodeOf(base).Fields {
		if tree.NodeOf(over).Get(f.Name) == nil {
			out.Add(f.Name, f.Pos, f.Value)
		}
	}
	for _, f := range tree.NodeOf(over).Fields {
		if f.Value.Kind != tree.Null {
			out.Add(f.Name, f.Pos, f.Value)
		}
	}
	return tree.ValueOf(out)
}

// overContainer combines a container with that of the settings, field by field.
func overContainer(base, over *Container) *Container {
	switch {
	case over == nil:
		return base
	case base == nil || base.Off || over.Off:
		return over
	}
	out := *over
	for _, f := range []struct{ to, from *tree.Value }{
		{&out.Image, &base.Image},
		{&out.Args, &base.Args},
		{&out.Volumes, &base.Volumes},
		{&out.User, &base.User},
		{&out.Network, &base.Network},
		{&out.Options, &base.Options},
	} {
		if f.to.IsZero() {
			*f.to = *f.from
		}
	}
	if out.Workspace.IsZero() && !out.NoWorkspace {
		out.Workspace, out.NoWorkspace = base.Workspace, base.NoWorkspace
	}
	if out.Pull == "" {
		out.Pull = base.Pull
	}
	if out.Init == nil {
		out.Init = base.Init
	}
	return &out
}
