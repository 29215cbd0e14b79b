package main

import (
	"context"
	"fmt"
	"sync"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
)

// witness watches the worker's requests, and notes faults: an activity is given out again although the server has
// confirmed its result, or a workflow task fails, as it does if the history is another one than before.
type witness struct {
	mu     sync.Mutex
	tokens map[string]string // runs and ids of the activities at hand, by tokens
	done   map[string]bool   // activities whose results were confirmed
	faults []string
}

func newWitness() *witness { return &witness{tokens: map[string]string{}, done: map[string]bool{}} }

// watch intercepts the client's requests.
func (w *witness) watch(
	ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	err := invoke(ctx, method, req, reply, conn, options...)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch q := req.(type) {
	case *workflowservice.PollActivityTaskQueueRequest:
		if task := reply.(*workflowservice.PollActivityTaskQueueResponse); err == nil && len(task.TaskToken) > 0 {
			w.given(task)
		}
	case *workflowservice.RespondWorkflowTaskCompletedRequest:
		for _, task := range reply.(*workflowservice.RespondWorkflowTaskCompletedResponse).GetActivityTasks() {
			w.given(task)
		}
	case *workflowservice.RespondActivityTaskCompletedRequest:
		if err == nil {
			w.done[w.tokens[string(q.TaskToken)]] = true
			delete(w.tokens, string(q.TaskToken))
		}
	case *workflowservice.RespondWorkflowTaskFailedRequest:
		w.faults = append(w.faults, fmt.Sprintf("a workflow task failed: %s, %s", q.Cause, q.Failure.GetMessage()))
	}
	return err
}

// given notes that an attempt was given out.
func (w *witness) given(task *workflowservice.PollActivityTaskQueueResponse) {
	name := task.GetWorkflowExecution().GetRunId() + " " + task.ActivityId
	if w.done[name] {
		w.faults = append(w.faults, fmt.Sprintf("%s of %s is made again in attempt %d: its result was confirmed",
			task.ActivityId, task.GetWorkflowExecution().GetWorkflowId(), task.Attempt))
	}
	w.tokens[string(task.TaskToken)] = name
}

// report prints the faults and returns how many there are.
func (w *witness) report() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fault := range w.faults {
		fmt.Println("FAIL", fault)
	}
	fmt.Printf("%d results of activities were confirmed\n", len(w.done))
	return len(w.faults)
}
