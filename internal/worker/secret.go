package worker

import (
	"context"

	"github.com/pawl-dev/pawl/internal/secret"
	"github.com/pawl-dev/pawl/policy"
)

// NoSecret returns the failure of an attempt that does not get what its payload refers to. The source may be away for a
// moment, so another attempt may help.
func NoSecret(ctx context.Context, err error) *policy.Failure {
	if ctx.Err() != nil {
		return Stopped(ctx)
	}
	return &policy.Failure{Kind: policy.KindError, Type: "secret", Message: err.Error()}
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
