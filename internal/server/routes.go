package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

const description = `Start runs of durable workflows, look at them, wait for them and operate on them.

A run is named by its run id, by its workflow id (the newest run that has it), by the unique beginning of its run id
(six characters or more), or by @last, the newest run that is not a child. Instants are RFC 3339; lengths of time are
written as in flow files, 1m30s. Every error is a problem (RFC 9457) with a code for programs and a hint for people.

A POST, PATCH or DELETE can have an Idempotency-Key: sent again within a day, it changes nothing and gets the same
answer, also from a server that was started again. The same key with another request is a conflict. That of a start
belongs to its workflow and holds as long as the run is kept. Operations on many runs and reports of tasks take none.`

// routes adds everything that the server answers.
func (s *Server) routes(mux *http.ServeMux) {
	cfg := huma.DefaultConfig("Pawl", "v1")
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath, cfg.CreateHooks = "", "", "", nil
	cfg.RejectUnknownQueryParameters = true
	cfg.Info.Description = description
	forms(cfg.Components.Schemas)
	a := humago.New(mux, cfg)
	s.api = a
	s.runRoutes(a)
	s.changeRoutes(a)
	s.bulkRoutes(a)
	s.waitRoutes(a)
	s.updateRoutes(a)
	s.changesRoute(a)
	s.policyRoutes(a)
	s.scheduleRoutes(a)
	s.clockRoutes(a)
	s.webhookRoutes(a)
	s.taskRoutes(a)
	s.bodiesRoutes(a)
	s.logRoutes(a)
	addArtifactRoutes(s, a)
	s.pruneRoutes(a)
	s.clusterRoutes(a)
	s.accessRoutes(a)
	s.callerRoute(a)
	s.flowRoutes(a)
	overviewRoutes(s, a)
	queueRoutes(s, a)
	compareRoute(s, a)
	s.otherRoutes(a)
	more := Routes{mux, s.roles}
	more.take(a.OpenAPI())
	callersRoute(s, more)
	s.documents(more, a.OpenAPI())
	if s.desk != nil {
		s.desk.routes(more)
	}
	if s.cfg.Routes != nil {
		s.cfg.Routes(more, s.cfg.Service)
	}
}

// Routes takes requests that the description of the API does not have.
type Routes struct {
	mux   *http.ServeMux
	roles map[string]string // the role that each route asks for, by its pattern
}

// Handle adds a request, and the role that it needs: one of those of package api, or Anyone.
func (r Routes) Handle(role, pattern string, answer http.HandlerFunc) {
	r.mux.HandleFunc(pattern, answer)
	r.roles[pattern] = role
}

// roleKey is where an operation keeps the role that it needs.
const roleKey = "role"

// take notes the roles of all operations of the API.
func (r Routes) take(described *huma.OpenAPI) {
	for path, item := range described.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete, item.Patch} {
			if op != nil {
				r.roles[op.Method+" "+path], _ = op.Metadata[roleKey].(string)
			}
		}
	}
}

// route describes one operation of the API, which asks for a role. The body was read and checked already, see readBody
// and checkShape.
func route(role, method, path, id, tag, summary string) huma.Operation {
	return huma.Operation{
		Method: method, Path: path, OperationID: id, Summary: summary, Tags: []string{tag}, MaxBodyBytes: -1,
		BodyReadTimeout: -1, SkipValidateBody: true, Metadata: map[string]any{roleKey: role},
	}
}

// under returns a route of the API below /api/v1.
func under(role, method, path, id, tag, summary string) huma.Operation {
	return route(role, method, httpapi.Base+path, id, tag, summary)
}

// answered is an answer with a body.
type answered[T any] struct{ Body T }

// body wraps a result for an answer, or makes a problem of an error.
func body[T any](v T, err error) (*answered[T], error) {
	if err != nil {
		return nil, httpapi.ProblemOf(err)
	}
	return &answered[T]{v}, nil
}

// done returns the answer of a change that has no result.
func done(err error) (*struct{}, error) {
	if err != nil {
		return nil, httpapi.ProblemOf(err)
	}
	return nil, nil
}

// OfRun is the input of requests about a run. It is exported because the library skips embedded types that are not.
type OfRun struct {
	Run string `path:"run" doc:"The run: its id, a workflow id, the beginning of an id, or @last."`
}

func (s *Server) otherRoutes(a huma.API) {
	op := under(api.RoleRead, "GET", "/definitions/{definition}", "getDefinition", "definitions",
		"Get a stored definition")
	huma.Register(a, op,
		func(ctx context.Context, in *struct {
			Definition string `path:"definition"`
		},
		) (*answered[api.Definition], error) {
			return body(s.cfg.Service.Definition(ctx, in.Definition))
		})
	huma.Register(a, under(api.RoleRead, "GET", "/stats", "getStats", "server", "Count what the engine holds and does"),
		func(ctx context.Context, _ *struct{}) (*answered[api.Stats], error) {
			return body(s.cfg.Service.Stats(ctx))
		})
	huma.Register(a, route(Anyone, "GET", "/livez", "live", "server", "Tell that the server answers"),
		func(context.Context, *struct{}) (*answered[health], error) { return body(health{"ok"}, nil) })
	huma.Register(a, route(Anyone, "GET", "/readyz", "ready", "server", "Tell whether the engine takes work"),
		func(ctx context.Context, _ *struct{}) (*answered[health], error) {
			return body(health{"ok"}, s.ready(ctx))
		})
	huma.Register(a, route(Anyone, "GET", "/version", "getVersion", "server", "Tell which version this is"),
		func(ctx context.Context, _ *struct{}) (*answered[version], error) {
			v := version{Version: s.cfg.Version, Stands: s.cfg.Clock != nil}
			c := callerOf(ctx)
			v.Asks = s.cfg.Access != nil && c != nil && !c.local && !c.shows
			if s.desk != nil {
				v.SignIn = s.desk.issuer.Name()
			}
			return body(v, nil)
		})
}

type health struct {
	Status string `json:"status"`
}

type version struct {
	Version string `json:"version"`
	// Stands: the clock of the runs is moved by hand.
	Stands bool   `json:"clockStands" doc:"The clock of the runs stands until somebody moves it; see /clock."`
	Asks   bool   `json:"asksForToken" doc:"Other requests need a token, and this one has shown none."`
	SignIn string `json:"signIn,omitempty" doc:"The issuer at which people sign in, at /login."`
}
