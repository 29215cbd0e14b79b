package worker

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/secret"
	"github.com/pawl-dev/pawl/policy"
)

// secretPause is how long an attempt without its secret waits before it is given back.
const secretPause = 5 * time.Second

// NoSecret returns the failure of an attempt that does not get what its payload refers to. The step can do nothing
// about it, so the attempt counts for nothing: it is made again after a pause, which NoSecret waits for, until a limit
// of the step or the run ends that.
func NoSecret(ctx context.Context, err error) *policy.Failure {
	select {
	case <-time.After(secretPause):
	case <-ctx.Done():
		return Stopped(ctx)
	}
	return &policy.Failure{Kind: policy.KindLost, Type: core.TypeNotBegun, Message: err.Error()}
}

// Redact takes secrets out of a result.
func Redact(r *secret.Redactor, res *Result) {
	if r == nil {
		return
	}
	res.Output = r.JSON(res.Output)
	if res.Failure != nil {
		f := *res.Failure
		f.Message, f.Type, f.Details = r.Text(f.Message), r.Text(f.Type), r.JSON(f.Details)
		res.Failure = &f
	}
}

// redacting takes secrets out of the details of heartbeats.
func redacting(alive Alive, r *secret.Redactor) Alive {
	if r == nil {
		return alive
	}
	return redactedAlive{alive, r}
}

type redactedAlive struct {
	Alive
	redactor *secret.Redactor
}

// Heartbeat passes on the details without secrets.
func (a redactedAlive) Heartbeat(details []byte) { a.Alive.Heartbeat(a.redactor.JSON(details)) }
