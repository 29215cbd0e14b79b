package server

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/bulk"
)

// BulkBody is the body of an operation on many runs. It is exported because the library skips embedded types that are
// not.
type BulkBody struct {
	httpapi.OperateBody
	Query  BulkQuery         `json:"query" doc:"Query that selects the runs. An empty one selects all of them."`
	Step   string            `json:"step,omitempty" doc:"The step of each run; without, the run."`
	Runs   int               `json:"runs,omitempty" minimum:"1" maximum:"100000" doc:"Most runs; default 100."`
	Over   duration.Duration `json:"over,omitzero" doc:"Spread the operations over this time: 10m."`
	DryRun bool              `json:"dryRun,omitempty" doc:"Tell the runs, and do nothing."`
}

// BulkQuery selects runs.
type BulkQuery struct {
	Workflow      string            `json:"workflow,omitempty"`
	WorkflowID    string            `json:"workflowId,omitempty"`
	Phases        []api.RunPhase    `json:"phases,omitempty"`
	Labels        map[string]string `json:"labels,omitempty" doc:"Runs that have all of them."`
	CreatedFrom   api.Time          `json:"createdFrom,omitzero"`
	CreatedBefore api.Time          `json:"createdBefore,omitzero"`
	Stuck         bool              `json:"stuck,omitempty"`
	Parent        string            `json:"parent,omitempty" doc:"Child runs that the steps of this run started."`
	Top           bool              `json:"top,omitempty" doc:"No child runs."`
	Within        api.Duration      `json:"deadlineWithin,omitzero" doc:"Runs whose deadline comes within this time."`
	Retrying      bool              `json:"retrying,omitempty" doc:"Runs of which a step is retried."`
	WillMiss      bool              `json:"willMiss,omitempty" doc:"Runs that will miss their deadlines."`
	Input         map[string]string `json:"input,omitempty" doc:"Runs with these values in their input, by path."`
	Text          string            `json:"q,omitempty" maxLength:"2000" doc:"A line of text: is:open flow:checkout."`
}

func (q *BulkQuery) query() api.Query {
	return api.Query{
		Workflow: q.Workflow, WorkflowID: q.WorkflowID, Phases: q.Phases, Labels: q.Labels, CreatedFrom: q.CreatedFrom,
		CreatedBefore: q.CreatedBefore, Stuck: q.Stuck, Parent: q.Parent, Top: q.Top, DeadlineWithin: q.Within,
		Retrying: q.Retrying, WillMiss: q.WillMiss, Input: q.Input, Text: q.Text,
	}
}

// bulkRoutes adds operations on many runs.
func (s *Server) bulkRoutes(a huma.API) {
	op := under(api.RoleOperate, "POST", "/bulk/{operation}", "operateRuns", "operations",
		"Apply an operation to many runs")
	op.Description = "A stream of server-sent events: a message for each run, the oldest first, then `end`, or " +
		"`problem` if it ends before. What was told as done is durable. It stops when the caller goes away. The " +
		"operation is the last part of its path on a run or, with a step, on a step: pause, retry."
	op.Responses = map[string]*huma.Response{"200": {
		Description: "The data of each message without a name is a Result.",
		Content: map[string]*huma.MediaType{httpapi.StreamType: {
			Schema: a.OpenAPI().Components.Schemas.Schema(typeOf[bulk.Result](), true, "Result"),
		}},
	}}
	huma.Register(a, op, func(ctx context.Context, in *struct {
		Operation string `path:"operation"`
		Body      BulkBody
	},
	) (*huma.StreamResponse, error) {
		b := &in.Body
		name := httpapi.OperationOf(in.Operation, b.Step != "")
		r := bulk.Request{
			Query: b.Query.query(), Operation: b.Operation(name, b.Step), Limit: b.Runs, Over: b.Over.Std(),
			DryRun: b.DryRun,
		}
		if !known(name) {
			return nil, httpapi.Invalid(http.StatusBadRequest, "there is no operation "+in.Operation)
		}
		// An invalid query is reported before the stream begins.
		check := r.Query
		check.Limit = 1
		if _, err := s.cfg.Service.Runs(ctx, check); err != nil {
			return nil, httpapi.ProblemOf(err)
		}
		return &huma.StreamResponse{Body: func(h huma.Context) { s.operateMany(h, r) }}, nil
	})
}

// known reports whether there is an operation.
func known(name string) bool {
	for _, a := range httpapi.Actions() {
		if a.Operation == name {
			return true
		}
	}
	return false
}

// operateMany applies an operation to many runs, and reports the outcome for each.
func (s *Server) operateMany(h huma.Context, r bulk.Request) {
	w, ok := h.BodyWriter().(http.ResponseWriter)
	if !ok {
		return
	}
	h.SetHeader("Content-Type", httpapi.StreamType)
	out := &stream{w: w, control: http.NewResponseController(w)}
	s.relay(h.Context(), out, func(ctx context.Context, send func(id string, data any) error) error {
		n := 0
		return bulk.Apply(ctx, s.cfg.Service, r, func(result bulk.Result) error {
			n++
			return send(strconv.Itoa(n), result)
		})
	})
}
