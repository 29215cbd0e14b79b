package pawlhttp

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/served"
	"github.com/pawl-dev/pawl/internal/server"
)

// Handler serves the HTTP API of an engine of this program, for [Connect] in other programs, for the command with
// --server, and for any HTTP client. It answers at /api/v1, /openapi.json, /docs, /livez, /readyz and /version, so it
// is for the root of a server.
//
// allow decides who may do what a request asks for. nil: everyone who reaches this machine as localhost may, so listen
// on 127.0.0.1 only. Handler panics if nobody has opened the engine, as http.Handle does for a handler that is nil.
func Handler(e *pawl.Engine, allow func(r *http.Request) bool) http.Handler {
	if e == nil || e.Client == nil {
		panic("pawlhttp: the engine is nil, or nobody has opened it: use pawl.Open")
	}
	of := served.Of(e)
	flows := func(func(string) (journal.Definition, error)) (server.Flows, api.Catalog) { return workflows{of}, nil }
	return daemon.Over(daemon.Program{Service: of}, daemon.Config{Flows: flows, Allow: allow}).Handler()
}

// workflows are those that a program has, by name.
type workflows struct{ of served.ProgramEngine }

func (w workflows) List(context.Context) ([]api.Flow, error) {
	out := []api.Flow{}
	for _, name := range w.of.Workflows() {
		out = append(out, api.Flow{Name: name})
	}
	return out, nil
}

func (w workflows) Find(ctx context.Context, name string) (api.Definition, error) {
	return w.of.Find(ctx, name)
}

func (w workflows) Read(context.Context, string) (api.Definition, error) {
	return api.Definition{}, errOwnOnly
}

func (w workflows) Check(context.Context, string) (api.CheckedFlow, error) {
	return api.CheckedFlow{}, errOwnOnly
}

var errOwnOnly = &api.Error{
	Code: api.CodeInvalid, Message: "a Go program serves this, and it starts its own workflows only",
	Hint: "name one of them",
}
