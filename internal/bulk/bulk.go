// Package bulk applies one operation to many runs, over any api.Service.
package bulk

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// MaxRuns is the most runs that one request may be about.
const MaxRuns = 100_000

// defaultRuns is the default number of runs for a request.
const defaultRuns = 100

// page is how many runs are listed at once.
const page = 500

// Request specifies which runs an operation is for.
type Request struct {
	Query     api.Query     // selects the runs; its Limit and Cursor mean nothing here
	Operation api.Operation // the operation for each of them
	Limit     int           // the most runs, of which the newest are taken; 0: 100
	Over      time.Duration // the operations are spread evenly over this time; 0: as fast as possible
	DryRun    bool          // nothing is done; the runs are only listed
}

// Result is the outcome for one run.
type Result struct {
	Run        string       `json:"run"`
	Workflow   string       `json:"workflow"`
	WorkflowID string       `json:"workflowId,omitempty"`
	Phase      api.RunPhase `json:"phase" doc:"Before the operation."`
	Status     api.Status   `json:"status" doc:"Word for people, before the operation."`
	Done       bool         `json:"done" doc:"The operation is durable; in a dry run never."`
	Code       api.Code     `json:"code,omitempty" doc:"Code of the refusal, for programs."`
	Message    string       `json:"message,omitempty" doc:"Reason why it was refused."`
}

// Apply applies the operation to each run, the oldest first, and calls fn with the outcome. If one run refuses the
// operation, the others go on. The runs are chosen before the first one is changed, so a run that begins meanwhile is
// not among them. It ends early if fn fails, ctx is done, or the service can no longer be used; operations that were
// reported stay done.
func Apply(ctx context.Context, s api.Service, r Request, fn func(Result) error) error {
	chosen, err := choose(ctx, s, r)
	if err != nil {
		return err
	}
	var pause time.Duration
	if n := len(chosen); n > 1 && !r.DryRun {
		pause = r.Over / time.Duration(n-1)
	}
	for i := len(chosen) - 1; i >= 0; i-- {
		result := chosen[i]
		if !r.DryRun {
			err := s.Operate(ctx, result.Run, r.Operation)
			if ends(err) {
				return err
			}
			if result.Done = err == nil; err != nil {
				result.Code, result.Message = api.CodeOf(err), err.Error()
			}
		}
		if err := fn(result); err != nil {
			return err
		}
		if i > 0 && pause > 0 {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return &api.Error{Code: api.CodeCancelled, Err: ctx.Err()}
			}
		}
	}
	return nil
}

// ends reports whether an error is about more than one run, so that the others would get it too.
func ends(err error) bool {
	switch api.CodeOf(err) {
	case api.CodeClosed, api.CodeStalled, api.CodeUncertain, api.CodeHeld, api.CodeFenced, api.CodeStorage,
		api.CodeCancelled, api.CodeReadOnly:
		return true
	default:
		return false
	}
}

// choose lists the runs, the newest first.
func choose(ctx context.Context, s api.Service, r Request) ([]Result, error) {
	most := r.Limit
	if most <= 0 {
		most = defaultRuns
	}
	most = min(most, MaxRuns)
	q := r.Query
	var chosen []Result
	for q.Cursor = ""; ; {
		q.Limit = min(page, most-len(chosen))
		got, err := s.Runs(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, run := range got.Runs {
			chosen = append(chosen, Result{
				Run: run.Run, Workflow: run.Workflow, WorkflowID: run.WorkflowID, Phase: run.Phase, Status: run.Status,
			})
		}
		if q.Cursor = got.Next; q.Cursor == "" || len(chosen) >= most {
			return chosen, nil
		}
	}
}
