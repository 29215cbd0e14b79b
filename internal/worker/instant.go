package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// instants is the queue of tasks that take no time. One goroutine works through it and ends when it is empty. A task
// costs an append and a call; an idle pool has no goroutine.
type instants struct {
	pool *Pool

	mu       sync.Mutex
	waiting  []quickTask
	spare    []quickTask // the previous batch, to use its memory again
	draining sync.WaitGroup
	busy     bool
	closed   bool
}

type quickTask struct {
	executor Instant
	task     core.Task
}

// instantPayload is the largest payload in bytes that an engine's loop has read on the spot, see [Pool.Do].
const instantPayload = 4 << 10

// keepInstants is the largest batch, in tasks, whose memory is kept for the next one.
const keepInstants = 4096

func (q *instants) push(executor Instant, t core.Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.waiting = append(q.waiting, quickTask{executor, t})
	if !q.busy {
		q.busy = true
		q.draining.Add(1)
		go q.drain()
	}
}

func (q *instants) drain() {
	defer q.draining.Done()
	for {
		q.mu.Lock()
		batch := q.waiting
		if len(batch) == 0 {
			q.busy = false
			q.mu.Unlock()
			return
		}
		q.waiting, q.spare = q.spare[:0], nil
		q.mu.Unlock()

		for i := range batch {
			q.pool.ended(batch[i].task.Token, do(batch[i].executor, batch[i].task), nil)
		}
		clear(batch)
		if cap(batch) <= keepInstants {
			q.mu.Lock()
			q.spare = batch
			q.mu.Unlock()
		}
	}
}

// do does a task, and turns a panic into a failure.
func do(executor Instant, t core.Task) (res Result) {
	guard(&res, func() Result { return executor.Do(t) })
	return res
}

// wait refuses further tasks and waits until the queued ones are done.
func (q *instants) wait() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.draining.Wait()
}

// NoopPayload is the payload of a noop task. It may be empty or null.
type NoopPayload struct {
	Output json.RawMessage `json:"output,omitempty"` // the attempt's output
}

// Noop does nothing and succeeds with the output that its payload gives.
type Noop struct{}

// Do returns the payload's output.
func (Noop) Do(t core.Task) Result {
	if len(t.Payload) == 0 || string(t.Payload) == "null" || string(t.Payload) == "{}" {
		return Result{}
	}
	var p NoopPayload
	if err := DecodePayload(t.Payload, &p); err != nil {
		return BadPayload("noop", err)
	}
	return Result{Output: p.Output}
}

// Execute returns the payload's output.
func (n Noop) Execute(_ context.Context, t *core.Task, _ Alive) Result { return n.Do(*t) }

// Fail fails with its payload, which is a [policy.Failure] as JSON: type, message, code, kind, nonRetryable,
// retryAfter, details. The kind defaults to failed.
type Fail struct{}

// Do returns the payload's failure.
func (Fail) Do(t core.Task) Result {
	f := &policy.Failure{}
	if len(t.Payload) > 0 && string(t.Payload) != "null" {
		if err := json.Unmarshal(t.Payload, f); err != nil {
			return BadPayload("fail", err)
		}
	}
	switch f.Kind {
	case 0:
		f.Kind = policy.KindFailed
	case policy.KindError, policy.KindFailed, policy.KindTimeout:
	default:
		return BadPayload("fail", fmt.Errorf("a step cannot choose the kind %s; use error, failed or timeout", f.Kind))
	}
	return Result{Failure: f}
}

// Execute returns the payload's failure.
func (f Fail) Execute(_ context.Context, t *core.Task, _ Alive) Result { return f.Do(*t) }

// unknownType is the executor for a task type that the pool does not have.
type unknownType string

// Do returns a failure that is not retried: another attempt would come to the same pool.
func (u unknownType) Do(core.Task) Result {
	const problem = "this worker has no such task type; start a worker that has it, or correct the step"
	return BadPayload(string(u), errors.New(problem))
}

// Execute returns the failure of Do.
func (u unknownType) Execute(_ context.Context, t *core.Task, _ Alive) Result { return u.Do(*t) }
