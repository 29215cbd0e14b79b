package pawl

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// Version makes it possible to change code while runs are open. It returns the version of a change that this run goes
// by: the newest, maxVersion, for runs that come here first with the new code, which is recorded; minVersion for runs
// that were beyond this point before the change was known. If several goroutines of a body work at once, it waits
// until all others wait.
//
//	if v, err := pawl.Version(ctx, "gift wrap", 1, 2); v >= 2 { … the new steps … }
//
// If minVersion is above what a run has recorded, the code for it is gone: the run waits with a [ChangedError].
func Version(ctx Context, change string, minVersion, maxVersion int) (int, error) {
	b := ctx.of()
	if err := checkName(change); err != nil {
		return 0, b.invalid(err, "version %q", change)
	}
	if minVersion > maxVersion {
		return 0, b.invalid(fmt.Errorf("%d is above %d", minVersion, maxVersion), "version %q", change)
	}
	return b.Version(change, minVersion, maxVersion)
}

// Now returns the time of the last thing the body has seen: the end of the step that it waited for last, or the run's
// start. It is the same each time the body is called, and changes only when the body waits.
func Now(ctx Context) time.Time { return ctx.of().Now().Std() }

// Random returns a source of random numbers that gives the same ones each time the body is called. It panics in a
// step's function: an attempt that is made again would get other numbers.
func Random(ctx Context) *rand.Rand {
	seed := ctx.of().Draw("pawl.Random")
	// The generator must give the same numbers each time, so it cannot be a cryptographic one.
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(seed[:8]), binary.BigEndian.Uint64(seed[8:16])))
}

// UUID returns a UUID, version 8, that is the same each time the body is called. It panics in a step's function: an
// attempt that is made again would get another one. Use the IdempotencyKey of [Attempt] there.
func UUID(ctx Context) string {
	b := ctx.of().Draw("pawl.UUID")
	b[6], b[8] = 0x80|b[6]&0x0f, 0x80|b[8]&0x3f
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// Info describes the run.
func Info(ctx Context) client.RunInfo {
	b := ctx.of()
	return runInfo(b.Run(), b.Head())
}

func runInfo(id core.RunID, h *engine.Head) client.RunInfo {
	run := id.String()
	info := client.RunInfo{
		ID: run, Workflow: h.Workflow, WorkflowID: h.WorkflowID, FirstID: run, Attempt: h.Chain.Attempt,
		StartedAt: h.StartedAt.Std(), Deadline: policy.Earliest(h.Execution.At, h.Deadline.At).Std(),
		Headers: h.Headers.Map(),
	}
	if h.Parent.Run != (core.RunID{}) {
		info.ParentID = h.Parent.Run.String()
	}
	if h.Chain.First != (core.RunID{}) {
		info.FirstID = h.Chain.First.String()
	}
	return info
}

// ContinueAsNew ends the run and starts the next one of its chain, with that input and an empty history. Return it from
// the body:
//
//	return out, pawl.ContinueAsNew(ctx, next)
//
// The new run has its own run timeout; the execution timeout covers both.
func ContinueAsNew[In any](ctx Context, in In) error {
	b := ctx.of()
	what, at := "the input to go on with", place{kind: kindInput, workflow: b.Head().Workflow}
	input, err := b.encode(b.host.codec, what, at, in)
	if err != nil {
		return err
	}
	return &continueError{input}
}

type continueError struct{ input []byte }

func (e *continueError) Error() string { return "the run continues as a new one" }
