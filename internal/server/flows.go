package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// Flows are the flows that can be started by name. Its methods are safe for concurrent use.
type Flows interface {
	// List returns all of them, by name.
	List(ctx context.Context) ([]api.Flow, error)
	// Find returns the definition of the flow with a name. Errors: CodeNotFound, CodeInvalid.
	Find(ctx context.Context, name string) (api.Definition, error)
	// Read makes a definition of the text of a flow file. Errors: CodeInvalid.
	Read(ctx context.Context, text string) (api.Definition, error)
	// Check reports what is wrong with the text of a flow file.
	Check(ctx context.Context, text string) (api.CheckedFlow, error)
}

// OfFlow is the input of requests about a flow. It is exported because the library skips embedded types that are not.
type OfFlow struct {
	Flow string `path:"flow" doc:"The name of the flow."`
}

// appliedFlow is the answer to an apply.
type appliedFlow struct {
	Status int
	Body   api.Flow
}

// flowRoutes adds the flows that can be started by name.
func (s *Server) flowRoutes(a huma.API) {
	huma.Register(a, under(api.RoleRead, "GET", "/flows", "listFlows", "definitions",
		"List the flows that can be started by name"),
		func(ctx context.Context, _ *struct{}) (*answered[httpapi.FlowList], error) {
			flows, err := s.flows(ctx)
			return body(httpapi.FlowList{Flows: flows}, err)
		})
	op := under(api.RoleAdmin, "PUT", "/flows/{flow}", "applyFlow", "definitions",
		"Make a text the newest version of a flow")
	op.Description = "The text is checked as pawl flow validate does. Starts by name use it from now on; runs go on " +
		"with the version that they were started with. 201 answers a new version, 200 one that was the newest already."
	huma.Register(a, op, func(ctx context.Context, in *struct {
		OfFlow
		Body httpapi.ApplyBody
	},
	) (*appliedFlow, error) {
		f, err := s.apply(ctx, in.Flow, &in.Body)
		if err != nil {
			return nil, httpapi.ProblemOf(err)
		}
		out := &appliedFlow{http.StatusOK, f}
		if f.New {
			out.Status = http.StatusCreated
		}
		return out, nil
	})
	answers := a.OpenAPI().Paths[op.Path].Put.Responses
	answers["201"] = &huma.Response{Description: "A new version.", Content: answers["200"].Content}
	op = under(api.RoleAdmin, "POST", "/flows/validate", "validateFlow", "definitions",
		"Check the text of a flow and start nothing")
	op.Description = "Whoever may start flows that they bring along may check them."
	huma.Register(a, op, func(ctx context.Context, in *struct {
		Body httpapi.FlowText
	},
	) (*answered[api.CheckedFlow], error) {
		return body(s.validate(ctx, in.Body.Text))
	})
	huma.Register(a, under(api.RoleRead, "GET", "/flows/{flow}", "getFlow", "definitions",
		"Get a flow with its source"),
		func(ctx context.Context, in *struct {
			OfFlow
			Version int `query:"version" minimum:"1" doc:"Default: the newest."`
		},
		) (*answered[api.Flow], error) {
			return body(s.flow(ctx, in.Flow, in.Version))
		})
	huma.Register(a, under(api.RoleRead, "GET", "/flows/{flow}/versions", "listVersions", "definitions",
		"List the versions of a flow, the newest first"),
		func(ctx context.Context, in *OfFlow) (*answered[httpapi.FlowList], error) {
			if s.cfg.Catalog == nil {
				return nil, httpapi.ProblemOf(errNoCatalog)
			}
			all, err := s.cfg.Catalog.Versions(ctx, in.Flow)
			return body(httpapi.FlowList{Flows: all}, err)
		})
}

var errNoCatalog = &api.Error{Code: api.CodeReadOnly, Message: "this server keeps no flows that are applied"}

// flows lists what can be started by name.
func (s *Server) flows(ctx context.Context) ([]api.Flow, error) {
	switch {
	case s.cfg.Catalog != nil:
		return s.cfg.Catalog.Flows(ctx)
	case s.cfg.Flows != nil:
		return s.cfg.Flows.List(ctx)
	default:
		return []api.Flow{}, nil
	}
}

// apply makes what a caller gives the newest version of a flow.
func (s *Server) apply(ctx context.Context, name string, b *httpapi.ApplyBody) (api.Flow, error) {
	r := api.ApplyRequest{Actor: b.Actor, Reason: b.Reason}
	if c := callerOf(ctx); c != nil && !c.local {
		r.Actor = c.name()
	}
	var err error
	switch {
	case s.cfg.Catalog == nil:
		return api.Flow{}, errNoCatalog
	case (b.Text == "") == (b.Definition == nil):
		return api.Flow{}, &api.Error{Code: api.CodeInvalid, Message: "give one of text and definition"}
	case b.Definition != nil:
		r.Definition = *b.Definition
	case s.cfg.Flows == nil:
		return api.Flow{}, &api.Error{Code: api.CodeReadOnly, Message: "this server reads no flows"}
	default:
		if err = mayBring(ctx, true); err == nil {
			r.Definition, err = s.readFlow(ctx, b.Text)
		}
	}
	if err == nil {
		err = mayBring(ctx, api.BringsCode(r.Definition.Kind))
	}
	if err == nil && r.Definition.Name != name {
		err = &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf(
			"the path says that the flow is %q, and it says itself that it is %q", name, r.Definition.Name)}
	}
	if err != nil {
		return api.Flow{}, err
	}
	return s.cfg.Catalog.Apply(ctx, r)
}

// validate checks the text of a flow. It reads files beside it as a start does, so it asks for the same right.
func (s *Server) validate(ctx context.Context, text string) (api.CheckedFlow, error) {
	if s.cfg.Flows == nil {
		return api.CheckedFlow{}, &api.Error{Code: api.CodeReadOnly, Message: "this server reads no flows"}
	}
	if err := mayBring(ctx, true); err != nil {
		return api.CheckedFlow{}, err
	}
	return reading(ctx, s, func() (api.CheckedFlow, error) { return s.cfg.Flows.Check(ctx, text) })
}

// checkText refuses the text of a flow that is too long to be read here.
func checkText(text string) error {
	if len(text) <= flowText {
		return nil
	}
	return &api.Error{
		Code: api.CodeTooLarge, Message: fmt.Sprintf("the flow has %d bytes, more than %d", len(text), flowText),
		Hint: "split it into flows that start one another, or put it into the server's folder and start it by its name",
	}
}

// readFlow makes a definition of the text of a flow file.
func (s *Server) readFlow(ctx context.Context, text string) (api.Definition, error) {
	if err := checkText(text); err != nil {
		return api.Definition{}, err
	}
	return reading(ctx, s, func() (api.Definition, error) { return s.cfg.Flows.Read(ctx, text) })
}

// flow returns a flow that can be started by name.
func (s *Server) flow(ctx context.Context, name string, version int) (api.Flow, error) {
	switch {
	case s.cfg.Catalog != nil:
		return s.cfg.Catalog.Flow(ctx, name, version)
	case s.cfg.Flows == nil || version != 0:
		return api.Flow{}, errNoCatalog
	}
	d, err := s.cfg.Flows.Find(ctx, name)
	return api.Flow{Name: d.Name, Definition: d.ID, Kind: d.Kind, Source: d.Source}, err
}
