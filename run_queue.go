package pawl

import (
	"errors"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
)

// RunQueue starts the runs of the workflow into a queue; see Config.Queues. A run is accepted at once, and begins when
// the limits of the queue admit it. Of the runs that wait, the one with the highest priority goes first.
//
// A run keeps its place until it ends, also while it sleeps or is paused. RunTimeout counts from its beginning,
// ExecutionTimeout and RunDeadline from its start. A run that continues as new keeps the place; one that follows by
// retry or cron waits in the queue again. A child run needs no place in a queue where a run above it has one.
func RunQueue(name string, priority int32) Option {
	return func(d *definition) {
		if name == "" {
			d.note(wrap("run queue", errors.New("the name is empty")))
		}
		d.queue = core.RunQueue{Name: name, Priority: priority}
	}
}

// InQueue starts the run into a queue; see [RunQueue]. The key is what limits for each key of the queue count by, such
// as a tenant. An empty name is the queue of the workflow.
func InQueue(name, key string, priority int32) StartOption {
	return func(r *client.StartRequest) { r.Queue, r.QueueKey, r.Priority = name, key, priority }
}
