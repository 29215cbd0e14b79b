package stevoraapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/dialect/stevora"
	"github.com/pawl-dev/pawl/internal/api"
)

const base = "/api/v1/workflow-runs"

// Find returns the definition of the workflow with a name. Errors: CodeNotFound, CodeInvalid.
type Find func(ctx context.Context, name string) (api.Definition, error)

// handlers answer requests through a service.
type handlers struct {
	service api.Service
	find    Find
}

// Routes adds the routes, each with the role that it asks for.
func Routes(
	handle func(role, pattern string, answer http.HandlerFunc), service api.Service, find Find,
) {
	h := &handlers{service, find}
	for pattern, answer := range map[string]func(r *http.Request) (reply, error){
		"POST " + base:                   h.start,
		"GET " + base:                    h.list,
		"GET " + base + "/{id}":          h.get,
		"POST " + base + "/{id}/retry":   h.retry,
		"POST " + base + "/{id}/cancel":  h.cancel,
		"POST " + base + "/{id}/signals": h.signal,
		"POST " + base + "/{id}/resume":  h.signal,
		"GET " + base + "/{id}/events":   h.events,
	} {
		role := api.RoleOperate
		if strings.HasPrefix(pattern, "GET ") {
			role = api.RoleRead
		}
		handle(role, pattern, func(w http.ResponseWriter, r *http.Request) {
			out, err := answer(r)
			if err != nil {
				out = refused(err)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(out.status)
			_ = json.NewEncoder(w).Encode(out.envelope) // a caller that has gone needs no answer
		})
	}
}

// reply is an answer with its status.
type reply struct {
	status int
	envelope
}

// envelope surrounds every answer.
type envelope struct {
	Success bool     `json:"success"`
	Data    any      `json:"data,omitempty"`
	Meta    *meta    `json:"meta,omitempty"`
	Error   *problem `json:"error,omitempty"`
}

// meta describes the data.
type meta struct {
	Count      int    `json:"count"`
	NextCursor string `json:"nextCursor,omitempty"` // cursor of the next page; empty: this is the last one
}

type problem struct {
	Code    string `json:"code"` // a code such as NOT_FOUND
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func answered(status int, data any) reply { return reply{status, envelope{Success: true, Data: data}} }

// refused returns the answer to a request that was not carried out.
func refused(err error) reply {
	code, p := api.CodeOf(err), &problem{Message: err.Error()}
	var own *api.Error
	if errors.As(err, &own) {
		p.Message, p.Hint = own.Message, own.Hint
	}
	p.Code = strings.ToUpper(code.String())
	return reply{code.HTTPStatus(), envelope{Error: p}}
}

func invalid(format string, args ...any) error {
	return &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// read reads the body of a request. An empty one leaves everything as it is.
func read(r *http.Request, into any) error {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return invalid("the body cannot be read: %v", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return invalid("the body: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalid("the body: there is something after the JSON value, at byte %d", d.InputOffset())
	}
	return nil
}

// actor is the sender of the request, for the history of a run.
const actor = "stevora api"

func (h *handlers) start(r *http.Request) (reply, error) {
	var in struct {
		Definition string          `json:"definitionId"` // the name of a workflow
		Input      json.RawMessage `json:"input"`
		Key        string          `json:"idempotencyKey"`
	}
	if err := read(r, &in); err != nil {
		return reply{}, err
	}
	if in.Definition == "" {
		return reply{}, invalid("definitionId is missing: it is the name of a workflow")
	}
	d, err := h.find(r.Context(), in.Definition)
	if err != nil {
		return reply{}, err
	}
	started, err := h.service.Start(r.Context(), api.StartRequest{
		Definition: d, Input: in.Input, Key: in.Key, Actor: actor,
	})
	if err != nil {
		return reply{}, err
	}
	out, err := h.service.Run(r.Context(), started.Run)
	if err != nil {
		return reply{}, err
	}
	status := http.StatusCreated
	if started.Existing {
		status = http.StatusOK
	}
	return answered(status, runOf(out)), nil
}

func (h *handlers) get(r *http.Request) (reply, error) {
	run, err := h.service.Run(r.Context(), r.PathValue("id"))
	if err != nil {
		return reply{}, err
	}
	return answered(http.StatusOK, runOf(run)), nil
}

func (h *handlers) list(r *http.Request) (reply, error) {
	var q api.Query
	for name, values := range r.URL.Query() {
		value := values[0]
		switch name {
		case "status":
			for _, phase := range api.RunPhases() {
				if phase != api.RunContinued && stevora.Status(string(phase)) == value {
					q.Phases = append(q.Phases, phase)
				}
			}
			if q.Phases == nil {
				return reply{}, invalid("status: %q is none; they are PENDING, RUNNING, WAITING, PAUSED, COMPLETED, "+
					"FAILED and CANCELLED", value)
			}
		case "definitionId":
			q.Workflow = value
		case "limit":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > 1000 {
				return reply{}, invalid("limit: %q is not a number from 1 to 1000", value)
			}
			q.Limit = n
		case "cursor":
			q.Cursor = value
		default:
			return reply{}, invalid("there is no parameter %q: there are status, definitionId, limit and cursor", name)
		}
	}
	page, err := h.service.Runs(r.Context(), q)
	if err != nil {
		return reply{}, err
	}
	runs := make([]run, 0, len(page.Runs))
	for i := range page.Runs {
		runs = append(runs, summaryOf(&page.Runs[i]))
	}
	out := answered(http.StatusOK, runs)
	out.Meta = &meta{Count: len(runs), NextCursor: page.Next}
	return out, nil
}

// retry runs the failed step of a run again. The answer shows the run as the retry leaves it: a worker may have taken
// the step since.
func (h *handlers) retry(r *http.Request) (reply, error) {
	ctx, id := r.Context(), r.PathValue("id")
	if err := read(r, &struct{}{}); err != nil {
		return reply{}, err
	}
	before, err := h.service.Run(ctx, id)
	if err != nil {
		return reply{}, err
	}
	if status := stevora.Status(string(before.Phase)); status != failed {
		return reply{}, &api.Error{
			Code: api.CodeConflict, Message: fmt.Sprintf("the run %s is %s: only one that has FAILED can be retried",
				before.Run, status),
		}
	}
	op := api.Operation{Operation: api.OpRetryRun, Actor: actor}
	if err := h.service.Operate(ctx, before.Run, op); err != nil {
		return reply{}, err
	}
	after, err := h.service.Run(ctx, before.Run)
	if err != nil {
		return reply{}, err
	}
	return answered(http.StatusOK, retried(before, after)), nil
}

func (h *handlers) cancel(r *http.Request) (reply, error) {
	var in struct {
		Reason string `json:"reason"`
	}
	if err := read(r, &in); err != nil {
		return reply{}, err
	}
	op := api.Operation{Operation: api.OpCancel, Actor: actor, Reason: in.Reason}
	if err := h.service.Operate(r.Context(), r.PathValue("id"), op); err != nil {
		return reply{}, err
	}
	return h.get(r)
}

func (h *handlers) signal(r *http.Request) (reply, error) {
	var in struct {
		Signal  string          `json:"signalType"`
		Payload json.RawMessage `json:"payload"`
	}
	if err := read(r, &in); err != nil {
		return reply{}, err
	}
	if in.Signal == "" {
		return reply{}, invalid("signalType is missing: it is what an external_event waits for")
	}
	err := h.service.Send(r.Context(), r.PathValue("id"), api.SendRequest{
		Name: in.Signal, Payload: in.Payload, Actor: actor,
	})
	if err != nil {
		return reply{}, err
	}
	return h.get(r)
}

// errEnough ends the reading of events.
var errEnough = errors.New("these are all")

func (h *handlers) events(r *http.Request) (reply, error) {
	ctx := r.Context()
	run, err := h.service.Run(ctx, r.PathValue("id"))
	if err != nil {
		return reply{}, err
	}
	all := []event{}
	var broke api.Event // the last failed step that a failed run reported
	if run.Events > 0 {
		err = h.service.Watch(ctx, run.Run, 0, func(e api.Event) error {
			out, ok := eventOf(&e)
			if ok {
				all = append(all, out)
			}
			switch {
			case e.Type == "step.failed" || e.Type == "step.timed_out":
				broke = e
			case out.Type == "WORKFLOW_FAILED" && out.Payload.Error != nil && broke.Step != "":
				out.Payload.Error.Message = messageOf(run, &broke)
			}
			if e.Seq >= run.Events {
				return errEnough
			}
			return nil
		})
	}
	if err != nil && !errors.Is(err, errEnough) {
		return reply{}, err
	}
	out := answered(http.StatusOK, all)
	out.Meta = &meta{Count: len(all)}
	return out, nil
}
