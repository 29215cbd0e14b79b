package server

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/schedules"
)

// instant is a parameter that holds an instant.
type instant struct{ api.Time }

// RunQuery are the parameters that choose runs. It is exported because the library skips embedded types that are not.
type RunQuery struct {
	Workflow      string   `query:"workflow" doc:"Runs of this workflow."`
	WorkflowID    string   `query:"workflowId" doc:"Runs with this workflow id."`
	Phases        []string `query:"phase,explode" doc:"Runs in this phase; repeat it for several."`
	Labels        []string `query:"label,explode" doc:"Runs with this label: key=value; repeat it for several."`
	CreatedFrom   instant  `query:"createdFrom" doc:"Runs created at this instant or later."`
	CreatedBefore instant  `query:"createdBefore" doc:"Runs created before it."`
	Stuck         bool     `query:"stuck" doc:"Open runs that cannot go on until somebody acts."`
	Resting       bool     `query:"resting" doc:"Open runs that nobody carries on."`
	Parent        string   `query:"parent" doc:"Child runs that the steps of this run started."`
	Top           bool     `query:"top" doc:"No child runs."`
	Within        length   `query:"deadlineWithin" doc:"Open runs whose deadline comes within this time: 10m."`
	Retrying      bool     `query:"retrying" doc:"Open runs of which a step backs off or is tried again."`
	WillMiss      bool     `query:"willMiss" doc:"Open runs that will miss their deadlines at their workflow's pace."`
	Text          string   `query:"q" maxLength:"2000" doc:"A line of text: is:open tenant=acme older:1h."`
	Inputs        []string `query:"input,explode" doc:"Runs with this in their input: customer.id=42. Read run by run."`
}

// listQuery are the parameters of a list of runs.
type listQuery struct {
	RunQuery
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" doc:"How many at most; default 50."`
	Cursor string `query:"cursor" doc:"Next of the page before."`
	After  string `query:"after" doc:"Without a cursor: the id of the last run of the page before."`
}

// query returns the query that the parameters mean.
func (l *RunQuery) query() (api.Query, error) {
	q := api.Query{
		Workflow: l.Workflow, WorkflowID: l.WorkflowID, CreatedFrom: l.CreatedFrom.Time,
		CreatedBefore: l.CreatedBefore.Time, Stuck: l.Stuck, Parent: l.Parent, Top: l.Top,
		DeadlineWithin: l.Within.Duration, Retrying: l.Retrying, WillMiss: l.WillMiss, Resting: l.Resting,
		Text: l.Text,
	}
	for _, p := range l.Phases {
		q.Phases = append(q.Phases, api.RunPhase(p))
	}
	var err error
	if q.Labels, err = pairs("label", l.Labels); err != nil {
		return q, err
	}
	q.Input, err = pairs("input", l.Inputs)
	return q, err
}

// pairs reads the values of a parameter that are written as key=value.
func pairs(parameter string, texts []string) (map[string]string, error) {
	var out map[string]string
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, httpapi.Invalid(http.StatusBadRequest, "the request is not valid", httpapi.Fault{
				Parameter: parameter, Detail: fmt.Sprintf("%q: write it as key=value", text),
			})
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out, nil
}

// runRoutes adds what reads runs.
func (s *Server) runRoutes(a huma.API) {
	list := under(api.RoleRead, "GET", "/runs", "listRuns", "runs", "List runs")
	list.Description = "The newest come first; with deadlineWithin or willMiss those with the soonest deadlines. A " +
		"page may have less than limit, or nothing, and still have a next one: what no index knows is looked for in " +
		"parts."
	huma.Register(a, list,
		func(ctx context.Context, in *listQuery) (*answered[api.Page], error) {
			q, err := in.query()
			if err != nil {
				return nil, err
			}
			q.Limit, q.Cursor, q.After = in.Limit, in.Cursor, in.After
			return body(s.cfg.Service.Runs(ctx, q))
		})
	counts := under(api.RoleRead, "GET", "/counts", "countRuns", "runs", "Count runs by phase")
	counts.Description = fmt.Sprintf("Up to %d of each phase are counted.", api.MostCounted)
	huma.Register(a, counts, func(ctx context.Context, in *struct{ RunQuery }) (*answered[[]api.Count], error) {
		q, err := in.query()
		if err != nil {
			return nil, err
		}
		return body(s.cfg.Service.Counts(ctx, q))
	})
	runRoute(s, a)
	foresee := under(api.RoleRead, "POST", "/runs/{run}/forecast", "forecastRun", "runs",
		"See what a run will come to if nobody acts")
	foresee.Description = "The answer is the run as it would be when its open steps have ended, if each attempt " +
		"fails as the request assumes: with the attempts, the very delays and the deadlines that will be. With an " +
		"operation in the request, it is what would follow from that. Nothing happens to the run."
	huma.Register(a, foresee, func(ctx context.Context, in *struct {
		OfRun
		Body *api.ForecastRequest
	},
	) (*answered[*api.Run], error) {
		var q api.ForecastRequest
		if in.Body != nil {
			q = *in.Body
		}
		return body(s.cfg.Service.Forecast(ctx, in.Run, q))
	})
	op := under(api.RoleRead, "GET", "/runs/{run}/history", "getHistory", "runs", "Get a run's history for a replay")
	op.Description = "All that is recorded of the run, as pawl run history prints it: keep the answer in a file, and " +
		"replay it with pawltest.Replay."
	op.Responses = map[string]*huma.Response{"200": {
		Description: "The history.", Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{
			Type: huma.TypeObject, Description: "A file with a version, pawlHistory. Only Pawl reads its entries.",
		}}},
	}}
	huma.Register(a, op, func(ctx context.Context, in *OfRun) (*file, error) {
		text, err := s.cfg.Service.History(ctx, in.Run)
		if err != nil {
			return nil, httpapi.ProblemOf(err)
		}
		return &file{"application/json", text}, nil
	})
}

// runRoute adds the request for one run: as it is, when it has changed, or as it was.
func runRoute(s *Server, a huma.API) {
	huma.Register(a, under(api.RoleRead, "GET", "/runs/{run}", "getRun", "runs",
		"Get a run with everything that explains it"),
		func(ctx context.Context, in *struct {
			OfRun
			Wait    length `query:"wait" doc:"Answer when something has happened after after, or then: 30s."`
			After   int    `query:"after" minimum:"0" doc:"The number of an event; a run has that of its last one."`
			Changed bool   `query:"changed" doc:"Answer with the steps alone that are open or changed since after."`
			At      int    `query:"at" minimum:"1" doc:"The number of an event: the run as it was right after it."`
			Folded  bool   `query:"folded" doc:"Leave the items of long lists out: their groups say how they stand."`
		},
		) (*answered[*api.Run], error) {
			if in.At > 0 {
				r, err := s.cfg.Service.RunAt(ctx, in.Run, in.At)
				return body(folded(s, r, in.Folded), err)
			}
			r, err := s.run(ctx, in.Run, in.After, in.Wait.Std())
			shown := folded(s, r, in.Folded)
			if err == nil && in.Changed && in.After > 0 {
				shown, err = changedSince(ctx, s.cfg.Service, r, shown, in.After)
			}
			return body(shown, err)
		})
	op := under(api.RoleRead, "GET", "/runs/{run}/items", "getItems", "runs", "Get items of a step with forEach")
	op.Description = "Answers a page of the items of a forEach, as the steps that they are."
	huma.Register(a, op, func(ctx context.Context, in *struct {
		OfRun
		Of     string        `query:"of" required:"true" doc:"The key of the step: pages."`
		Phase  api.StepPhase `query:"phase" doc:"Items in this phase alone: failed."`
		Order  string        `query:"order" enum:"index,worst" doc:"worst: those that failed first, then open ones."`
		Offset int           `query:"offset" minimum:"0" doc:"How many items to leave out at the beginning."`
		Limit  int           `query:"limit" minimum:"1" maximum:"1000" doc:"The most that are answered: 100."`
		At     int           `query:"at" minimum:"1" doc:"The number of an event: the items as they were then."`
	},
	) (*answered[api.ItemPage], error) {
		r, err := s.cfg.Service.Run(ctx, in.Run)
		if in.At > 0 {
			r, err = s.cfg.Service.RunAt(ctx, in.Run, in.At)
		}
		if err != nil {
			return body(api.ItemPage{}, err)
		}
		return body(r.ItemsOf(api.ItemQuery{
			Of: in.Of, Phase: in.Phase, Worst: in.Order == "worst", Offset: in.Offset, Limit: in.Limit,
		}))
	})
}

// folded leaves the items of long lists out where a caller wants that.
func folded(s *Server, r *api.Run, wanted bool) *api.Run {
	if r == nil || !wanted {
		return r
	}
	asOf := api.At(s.now())
	if r.AsOf != nil {
		asOf = r.AsOf.Time
	}
	return r.WithoutItems(asOf)
}

// file is an answer that is sent unchanged.
type file struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

// startInput is the input of a start.
type startInput struct {
	Key  string `header:"Idempotency-Key" doc:"A second start with the same key answers with the run of the first."`
	Body httpapi.StartBody
}

// started is the answer to a start.
type started struct {
	Status   int
	Location string `header:"Location"`
	Body     api.Started
}

// startedAt returns the answer to a start: 201 for a new run, 200 for an existing one.
func startedAt(st api.Started, err error) (*started, error) {
	if err != nil {
		return nil, httpapi.ProblemOf(err)
	}
	out := &started{Status: http.StatusCreated, Location: httpapi.Base + "/runs/" + url.PathEscape(st.Run), Body: st}
	if st.Existing {
		out.Status = http.StatusOK
	}
	return out, nil
}

// changeRoutes adds what starts runs and changes them.
func (s *Server) changeRoutes(a huma.API) {
	op := under(api.RoleOperate, "POST", "/runs", "startRun", "runs", "Start a run")
	op.DefaultStatus = http.StatusCreated
	huma.Register(a, op, func(ctx context.Context, in *startInput) (*started, error) {
		req, err := s.startRequest(ctx, in)
		if err != nil {
			return nil, httpapi.ProblemOf(err)
		}
		s.streams.Add(1) // it may have to wait for the run whose place it takes
		defer s.streams.Add(-1)
		if len(req.Definition.Source) > shortBody { // it may have to be read
			return startedAt(reading(ctx, s, func() (api.Started, error) { return s.cfg.Service.Start(ctx, req) }))
		}
		return startedAt(s.cfg.Service.Start(ctx, req))
	})
	answers := a.OpenAPI().Paths[op.Path].Post.Responses
	answers["200"] = &huma.Response{Description: "The run was there before.", Content: answers["201"].Content}
	op = under(api.RoleOperate, "POST", "/runs/{run}/restart", "restartRun", "operations",
		"Start a new run like this one")
	op.DefaultStatus = http.StatusCreated
	huma.Register(a, op, func(ctx context.Context, in *struct {
		OfRun
		Body *httpapi.RestartBody
	},
	) (*started, error) {
		var req api.RestartRequest
		if in.Body != nil {
			req = in.Body.RestartRequest
			if text, another := in.Body.Text(); another {
				d, err := s.definition(ctx, text, req.Input)
				if err != nil {
					return nil, httpapi.ProblemOf(err)
				}
				req.Definition = &d
			}
		}
		return startedAt(s.cfg.Service.Restart(ctx, in.Run, req))
	})
	op = under(api.RoleApprove, "POST", "/runs/{run}/events", "sendEvent", "events", "Send an event to a run")
	op.DefaultStatus = http.StatusNoContent
	huma.Register(a, op, func(ctx context.Context, in *struct {
		OfRun
		Body api.SendRequest
	},
	) (*struct{}, error) {
		return done(s.cfg.Service.Send(ctx, in.Run, in.Body))
	})
	op = under(api.RoleOperate, "POST", "/runs/{run}/carry", "carryRun", "operations", "Carry a run on that rests")
	op.Description = "A process that opened its database for some runs lets the others rest. A server carries all of " +
		"them on, so there it changes nothing."
	op.DefaultStatus = http.StatusNoContent
	huma.Register(a, op, func(ctx context.Context, in *struct {
		OfRun
		Keep bool `query:"keep" doc:"Its steps keep the environment that they have, if they have one."`
	},
	) (*struct{}, error) {
		if s.cfg.Carry != nil {
			return done(s.cfg.Carry(ctx, in.Run, in.Keep))
		}
		_, err := s.cfg.Service.Run(ctx, in.Run)
		return done(err)
	})
	s.operationRoutes(a)
}

// startRequest returns the start that a request asks for.
func (s *Server) startRequest(ctx context.Context, in *startInput) (api.StartRequest, error) {
	b := &in.Body
	if in.Key != "" {
		if b.Key != "" && b.Key != in.Key {
			return api.StartRequest{}, &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf(
				"the header Idempotency-Key says %q and the body's key says %q: give one of them", in.Key, b.Key)}
		}
		b.Key = in.Key
	}
	d, err := s.definition(ctx, b.Text(), b.Input)
	if err == nil && s.cfg.Missing != nil {
		err = s.cfg.Missing(ctx, d)
	}
	return b.Request(d), err
}

// definition returns the definition that a start with an input names or gives.
func (s *Server) definition(ctx context.Context, b httpapi.Text, input []byte) (d api.Definition, err error) {
	given := 0
	for _, is := range []bool{b.Workflow != "", b.Flow != "", b.Definition != nil} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return d, &api.Error{
			Code: api.CodeInvalid, Message: "say what to start: one of workflow, flow and definition",
			Hint: "workflow is the name of a flow that the server has, flow is the text of a flow file",
		}
	case b.Definition != nil:
		if err := mayBring(ctx, schedules.Brings(b.Definition.Kind, input)); err != nil {
			return d, err
		}
		return *b.Definition, checkText(b.Definition.Source)
	case s.cfg.Flows == nil:
		return d, &api.Error{
			Code: api.CodeNotFound, Message: "this server has no flows and reads none",
			Hint: "give the definition, or start it with pawl dev FOLDER",
		}
	case b.Flow != "":
		if err := mayBring(ctx, true); err != nil {
			return d, err
		}
		return s.readFlow(ctx, b.Flow)
	default:
		return s.cfg.Flows.Find(ctx, b.Workflow)
	}
}

// operationRoutes adds the operations on runs and steps.
func (s *Server) operationRoutes(a huma.API) {
	for _, action := range httpapi.Actions() {
		path, id := "/runs/{run}/", strings.ReplaceAll(action.Path, "-p", "P")+"Run"
		if action.Step {
			path, id = "/runs/{run}/steps/{step}/", strings.TrimSuffix(id, "Run")+"Step"
		}
		op := under(api.RoleOperate, "POST", path+action.Path, id, "operations", action.Summary)
		s.operation(a, op, action.Operation, action.Step)
	}
	// An operation that is requested at a wrong path is refused by the service, with the same text as elsewhere.
	for _, step := range []bool{false, true} {
		path := "/runs/{run}/{operation}"
		if step {
			path = "/runs/{run}/steps/{step}/{operation}"
		}
		op := under(api.RoleOperate, "POST", path, "", "operations", "")
		op.Hidden = true
		s.operation(a, op, "", step)
	}
}

// OperateRun is the input of an operation on a run.
type OperateRun struct {
	OfRun
	Body *httpapi.OperateBody
}

// OperateStep is the input of an operation on a step.
type OperateStep struct {
	OfRun
	Step string `path:"step" doc:"The step's key: its name, of an item of a loop with its index: pages[3]."`
	Body *httpapi.OperateBody
}

// operation adds one operation. If it has no name, it is in the path.
func (s *Server) operation(a huma.API, op huma.Operation, name string, step bool) {
	op.DefaultStatus = http.StatusNoContent
	operate := func(ctx context.Context, run, step, given string, b *httpapi.OperateBody) (*struct{}, error) {
		if b == nil {
			b = &httpapi.OperateBody{}
		}
		return done(s.cfg.Service.Operate(ctx, run, b.Operation(given, step)))
	}
	switch {
	case name == "" && step:
		huma.Register(a, op, func(ctx context.Context, in *struct {
			OperateStep
			Operation string `path:"operation"`
		},
		) (*struct{}, error) {
			return operate(ctx, in.Run, in.Step, in.Operation, in.Body)
		})
	case name == "":
		huma.Register(a, op, func(ctx context.Context, in *struct {
			OperateRun
			Operation string `path:"operation"`
		},
		) (*struct{}, error) {
			return operate(ctx, in.Run, "", in.Operation, in.Body)
		})
	case step:
		huma.Register(a, op, func(ctx context.Context, in *OperateStep) (*struct{}, error) {
			return operate(ctx, in.Run, in.Step, name, in.Body)
		})
	default:
		huma.Register(a, op, func(ctx context.Context, in *OperateRun) (*struct{}, error) {
			return operate(ctx, in.Run, "", name, in.Body)
		})
	}
}
