package pawl

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker"
)

// attempt is the context of a step's function.
type attempt struct {
	context.Context
	task     *core.Task
	alive    worker.Alive
	codec    Codec
	host     *host
	unkept   sync.Once // it was logged that the details of a heartbeat are not kept
	deadline time.Time

	begin sync.Once     // the making of done
	done  chan struct{} // closed when the attempt's time is over
}

// attempt makes the context of a function.
func (h *host) attempt(ctx context.Context, t *core.Task, alive worker.Alive, codec Codec) *attempt {
	a := &attempt{
		Context: h.carried(ctx, t.Token.Run, t.Headers), task: t, alive: alive, codec: codec, host: h,
	}
	if left, ok := worker.Remaining(ctx); ok {
		a.deadline = time.Now().Add(left)
	}
	return a
}

// Deadline returns when the attempt's time ends, as known at its start. An operator may move it afterwards. The engine
// ends the attempt, and the context is done then.
func (a *attempt) Deadline() (time.Time, bool) { return a.deadline, !a.deadline.IsZero() }

// Err returns context.DeadlineExceeded where a limit has ended the attempt. context.Cause then matches ErrTimedOut, and
// ErrCancelled where the attempt was cancelled.
func (a *attempt) Err() error {
	err := a.Context.Err()
	if err != nil && errors.Is(context.Cause(a.Context), ErrTimedOut) {
		return context.DeadlineExceeded
	}
	return err
}

// Done returns a channel of the attempt's own: contexts that are derived from a channel's owner take its Err as theirs.
func (a *attempt) Done() <-chan struct{} {
	a.begin.Do(func() {
		a.done = make(chan struct{})
		over := func() { close(a.done) }
		if !worker.WhenStopped(a.Context, over) {
			context.AfterFunc(a.Context, over)
		}
	})
	return a.done
}

// AfterFunc lets derived contexts end with this one without a goroutine each.
func (a *attempt) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(a.Context, f) }

type attemptKey struct{}

func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// attemptOf returns the attempt that a context belongs to; nil: none.
func attemptOf(ctx context.Context) *attempt {
	if ctx == nil {
		return nil
	}
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// Heartbeat is how a step's attempt tells that it is alive, and how far it is: details of type T, which its next
// attempt finds. Declare it once for the function of the step:
//
//	var page pawl.Heartbeat[int]
//
// Its zero value is ready for use. See [HeartbeatTimeout].
type Heartbeat[T any] struct{}

// Beat reports that the step's attempt is alive, and keeps details for the next attempt; nil: none. It is cheap: call
// it often. If the process is killed, details of its last second may be lost. Details that cannot be encoded, or are
// above Config.MaxPayload, are not kept, and the log says so. Outside of a step it does nothing.
func (Heartbeat[T]) Beat(ctx context.Context, details T) {
	a := attemptOf(ctx)
	if a == nil {
		return
	}
	var b []byte
	if any(details) != nil {
		var err error
		if b, err = a.encodeDetails(details); err != nil {
			b = nil // the heartbeat counts even without its details
			a.unkept.Do(func() {
				a.host.log.Warn("the details of a heartbeat are not kept", "run", a.task.Token.Run.String(), "step",
					a.task.StepName, "error", err)
			})
		}
	}
	a.alive.Heartbeat(b)
}

// Last returns the details of the last heartbeat of the previous attempt; false: there are none.
func (Heartbeat[T]) Last(ctx context.Context) (T, bool) {
	var zero T
	a := attemptOf(ctx)
	if a == nil || len(a.task.Details) == 0 {
		return zero, false
	}
	var v T
	err := a.retryCodec(func(ctx context.Context) (err error) {
		v, err = decode[T](ctx, a.codec, heartbeatDetails, a.at(kindHeartbeat), a.task.Details)
		return err
	})
	return v, err == nil
}

const heartbeatDetails = "the details of a heartbeat"

// encodeDetails makes the payload of a heartbeat. It does not wait for a codec, since the next heartbeat has newer
// details.
func (a *attempt) encodeDetails(details any) ([]byte, error) {
	b, err := encode(a, a.codec, heartbeatDetails, a.at(kindHeartbeat), details)
	if err == nil {
		err = a.host.tooLarge(heartbeatDetails, b)
	}
	return b, err
}

// Attempt describes the attempt that a step's function is called for. Outside of a step everything is zero.
func Attempt(ctx context.Context) client.AttemptInfo {
	if a := attemptOf(ctx); a != nil {
		return a.info()
	}
	return client.AttemptInfo{}
}

func (a *attempt) info() client.AttemptInfo {
	run := a.task.Token.Run.String()
	return client.AttemptInfo{
		RunID: run, Workflow: a.task.Workflow, Step: a.task.StepName, Number: a.task.Count,
		IdempotencyKey: run + "/" + a.task.StepName, Headers: a.task.Headers.Map(),
	}
}
