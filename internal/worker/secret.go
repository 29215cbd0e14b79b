package worker

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/caller"
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

// Callers finds for whom attempts are made, where a process carries on runs for other commands, too.
type Callers struct {
	// Find returns for whom a family of runs is carried on.
	Find func(top core.RunID) *caller.Caller
	// Dir is the folder of logs, where each run gets a note of its caller. Empty: it gets none.
	Dir string

	noted sync.Map // the caller that was noted last, by run
}

// For returns for whom an attempt is made; nil: this process is a server, or executes tasks of one.
func (c *Callers) For(t *core.Task) *caller.Caller {
	if c == nil {
		return nil
	}
	found := c.Find(t.Top)
	if found == nil || c.Dir == "" {
		return found
	}
	if last, known := c.noted.Swap(t.Token.Run, found); !known || last != found {
		caller.Write(c.Dir, t.Token.Run.String(), found)
	}
	return found
}

// SecretsOf returns the secrets of whoever an attempt is made for.
func (cfg *ExecConfig) SecretsOf(t *core.Task) *secret.Store {
	if c := cfg.Callers.For(t); c != nil {
		return c.Store
	}
	return cfg.Secrets
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
