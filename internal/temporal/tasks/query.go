package tasks

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/temporal/history"
)

// query is a question to the worker of a workflow. It is answered with the workflow task that is due, because the
// answer has to know of all that has happened before the question. Where no task is due it is a task of its own, of
// which nothing is recorded. Questions live in memory: who asks asks again after a crash.
type query struct {
	asks   *querypb.WorkflowQuery
	answer chan answered // has room for the answer
	gone   context.Context
}

// answered is the answer to a query, or why there is none.
type answered struct {
	ok  *workflowservice.QueryWorkflowResponse
	err error
}

// queryResult is what a worker says to a query.
type queryResult struct {
	result  *commonpb.Payloads
	text    string
	failure *failurepb.Failure
}

// tell answers a query, unless it was answered before.
func (q *query) tell(a answered) {
	select {
	case q.answer <- a:
	default:
	}
}

// tellResult answers a query with what a worker says.
func (q *query) tellResult(kind enumspb.QueryResultType, r queryResult) {
	if proto.Size(r.result) > largestAnswer {
		q.tell(answered{err: serviceerror.NewQueryFailed("Blob data size exceeds limit.")})
		return
	}
	if kind == enumspb.QUERY_RESULT_TYPE_ANSWERED {
		q.tell(answered{ok: &workflowservice.QueryWorkflowResponse{QueryResult: r.result}})
		return
	}
	q.tell(answered{err: serviceerror.NewQueryFailedWithFailure(r.text, r.failure)})
}

const (
	// largestAnswer bounds what a worker may answer.
	largestAnswer = 2 << 20
	// queriesKept bounds the queries of a run that wait.
	queriesKept = 1000
	// notReady is the attempt of a workflow task from which on queries do not wait for it: its worker cannot go on.
	notReady = 4
)

// Query asks the worker of a run. The run is used and released.
func (r *OfRun) Query(
	ctx context.Context, asks *querypb.WorkflowQuery,
) (*workflowservice.QueryWorkflowResponse, error) {
	q := &query{asks: asks, answer: make(chan answered, 1), gone: ctx}
	attempt, _, isDue := r.Pending()
	switch {
	case isDue && attempt >= notReady:
		r.Release()
		return nil, serviceerror.NewWorkflowNotReady(
			"Unable to query workflow due to Workflow Task in failed state.")
	case !isDue && r.Fold.Asked == 0:
		r.Release()
		return nil, serviceerror.NewWorkflowNotReady("The workflow has not begun yet.")
	case len(r.queries) >= queriesKept:
		r.Release()
		return nil, serviceerror.NewResourceExhausted(
			enumspb.RESOURCE_EXHAUSTED_CAUSE_UNSPECIFIED, "too many queries of the workflow wait")
	}
	r.queries = append(r.queries, q)
	r.direct()
	r.Release()
	select {
	case a := <-q.answer:
		return a.ok, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// direct makes tasks of their own of the queries that wait, if no workflow task is due with which they could go.
func (r *OfRun) direct() {
	if _, isDue := r.Fold.Due(); isDue || r.out != nil || len(r.queries) == 0 {
		return
	}
	queues, own := r.keeper.queues, r.Fold.Start().GetTaskQueue().GetName()
	for _, q := range r.queries {
		o := &offer{run: r, query: q, queue: own, since: r.keeper.now()}
		name := r.stickyQueue()
		if name == "" {
			queues.put(own, o, false)
			continue
		}
		queues.put(name, o, false)
		time.AfterFunc(r.sticky.within, func() {
			if !queues.remove(name, o) {
				return
			}
			queues.put(own, o, false)
			r := r.keeper.Use(r.Fold.Run)
			defer r.Release()
			if r.sticky.queue == name { // its worker has gone
				r.Unstick()
			}
		})
	}
	r.queries = nil
}

// Unstick makes the next task of the run go to any worker.
func (r *OfRun) Unstick() { r.sticky = sticky{} }

// attach gives a task the queries that wait.
func (r *OfRun) attach(l *lease) map[string]*querypb.WorkflowQuery {
	out := map[string]*querypb.WorkflowQuery{}
	l.queries = map[string]*query{}
	for i, q := range r.queries {
		if q.gone.Err() == nil {
			id := string(binary.AppendUvarint([]byte("q"), uint64(i)))
			out[id], l.queries[id] = q.asks, q
		}
	}
	r.queries = nil
	return out
}

// takeBack lets the queries and updates of a task wait that it has not answered.
func (r *OfRun) takeBack(l *lease) {
	for _, q := range l.queries {
		if q.gone.Err() == nil {
			r.queries = append(r.queries, q)
		}
	}
	l.queries = nil
	r.unsend(l)
}

// settleQueries tells the answers to the queries of a task.
func (l *lease) settleQueries(results map[string]*querypb.WorkflowQueryResult) {
	for id, result := range results {
		if q := l.queries[id]; q != nil {
			q.tellResult(result.ResultType, queryResult{result.Answer, result.ErrorMessage, result.Failure})
			delete(l.queries, id)
		}
	}
}

// queryForm is the first byte of the token of a query that is a task of its own.
const queryForm = 'q'

// ask gives a worker the task of a query; nil: nobody wants to know any more.
func (k *Keeper) ask(
	ctx context.Context, o *offer, isSticky bool,
) *workflowservice.PollWorkflowTaskQueueResponse {
	if o.query.gone.Err() != nil {
		return nil
	}
	r := k.Use(o.run.Fold.Run)
	defer r.Release()
	if err := r.Refresh(ctx); err != nil {
		o.query.tell(answered{err: err})
		return nil
	}
	number := k.leases.Add(1)
	token := binary.BigEndian.AppendUint64([]byte{queryForm}, k.epoch)
	token = binary.AppendUvarint(token, number)
	k.mu.Lock()
	k.asked[number] = o.query
	k.mu.Unlock()
	context.AfterFunc(o.query.gone, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.asked, number)
	})
	out := &workflowservice.PollWorkflowTaskQueueResponse{
		TaskToken: token, WorkflowExecution: r.Execution(), WorkflowType: r.Fold.Start().GetWorkflowType(),
		PreviousStartedEventId: r.Fold.Asked, Attempt: 1, Query: o.query.asks, History: &historypb.History{},
		WorkflowExecutionTaskQueue: r.Fold.Start().GetTaskQueue(),
	}
	if isSticky { // its worker has the workflow in its memory
		return out
	}
	out.History.Events = slices.Clone(r.Events())
	if r.Fold.Closed == 0 {
		out.StartedEventId = r.Fold.Asked
	}
	return out
}

// AnswerQuery takes the answer to a query that was a task of its own.
func (k *Keeper) AnswerQuery(a *workflowservice.RespondQueryTaskCompletedRequest) error {
	b := a.TaskToken
	if len(b) < 9 || b[0] != queryForm {
		return errToken
	}
	number, n := binary.Uvarint(b[9:])
	if n <= 0 || 9+n != len(b) {
		return errToken
	}
	k.mu.Lock()
	q := k.asked[number]
	delete(k.asked, number)
	k.mu.Unlock()
	if q == nil || binary.BigEndian.Uint64(b[1:]) != k.epoch {
		return serviceerror.NewNotFound("query task not found, or already expired")
	}
	q.tellResult(a.CompletedType, queryResult{a.QueryResult, a.ErrorMessage, a.Failure})
	return nil
}

// Rejected reports whether a query is refused because of how its run is doing.
func Rejected(condition enumspb.QueryRejectCondition, f *history.Fold) bool {
	switch condition {
	case enumspb.QUERY_REJECT_CONDITION_NOT_OPEN:
		return f.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	case enumspb.QUERY_REJECT_CONDITION_NOT_COMPLETED_CLEANLY:
		return f.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING &&
			f.Status != enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	default:
		return false
	}
}
