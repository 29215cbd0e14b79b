package lease

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/policy"
)

// Workflow is what a server has to know of a workflow whose function is in another process.
type Workflow struct {
	Definition     journal.Definition
	Hooks          map[string]*core.StepSpec
	Retry          *policy.Retry
	Execution, Run *policy.Limit
	Compensation   time.Duration
	Queue          core.RunQueue
	Cron           *schedule.Spec // nil: runs begin when they are started
}

// body returns the workflow as the state machine needs it. It has no functions.
func (w *Workflow) body() (*body.Workflow, error) {
	out := &body.Workflow{
		Hooks: map[string]*body.Hook{}, Retry: w.Retry, Execution: w.Execution, Run: w.Run,
		Compensation: w.Compensation, Queue: w.Queue,
	}
	for name, spec := range w.Hooks {
		out.Hooks[name] = &body.Hook{Spec: spec}
	}
	if w.Cron != nil {
		table, err := w.Cron.Table()
		if err != nil {
			return nil, fmt.Errorf("workflow %q: cron: %w", w.Definition.Name, err)
		}
		out.Cron = &table
	}
	return out, nil
}

// downKind says what a holder is told.
type downKind uint8

const (
	downBegin  downKind = iota // a lease begins; the news are the whole run
	downNews                   // more happened to the run
	downHeld                   // the body must not go on for now
	downEnd                    // the lease has ended
	downTask                   // execute an attempt
	downOffer                  // somebody sends the body an update
	downRevoke                 // an attempt has ended: stop its work
)

// down is one thing that a holder is told.
type down struct {
	Kind   downKind
	Run    core.RunID
	Lease  uint64
	News   *engine.News  // of begin and news
	Task   *core.Task    // of task
	Left   time.Duration // until the task's deadline; 0: it has none
	Update *body.Update  // of offer
	Token  core.Token    // of revoke
	Why    policy.Kind   // of revoke
}

// upKind says what a holder tells.
type upKind uint8

const (
	upDecide  upKind = iota // the body has decided, and attempts have ended
	upReport                // on an attempt
	upConfirm               // the same, and the answer says whether the attempt goes on
	upBegin                 // the body has come to a recorded step, whose attempts may begin
	upConsult               // tell everything of the run
	upEnd                   // the call of the body has ended, and the lease with it
	upRefuse                // the body does not accept an update
	upProblem               // why the body cannot go on
	upLeave                 // all leases end; attempts go on
	upGone                  // nothing is at work any more
)

// up is one thing that a holder tells.
type up struct {
	Kind    upKind
	Run     core.RunID
	Lease   uint64 // 0: the holder has none of the run
	Inputs  []core.Input
	Step    core.StepID     // of begin
	Seen    int             // of end: how many news and updates of the lease the body has got
	Text    string          // of problem
	Update  *body.Update    // of refuse
	Failure *policy.Failure // of refuse
}

func init() {
	for _, in := range []any{core.Commands{}, core.TaskEnded{}, core.TaskStopped{}, core.Beat{}} {
		gob.Register(in)
	}
	for _, cmd := range []any{
		core.Schedule{},
		core.Mark{},
		core.CancelStep{},
		core.Publish{},
		core.AcceptUpdate{},
		core.AnswerUpdate{},
		core.Close{},
	} {
		gob.Register(cmd)
	}
}

// encode writes what goes to another process. Fields that one of the two does not know are left out, so programs of
// different versions understand each other.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return nil, fmt.Errorf("lease: encode %T: %w", v, err)
	}
	return b.Bytes(), nil
}

// encodedMost is how many bytes are sent at once, if that is not one thing alone.
const encodedMost = 2 << 20

// encodeSome writes as many of all as one request or answer can have, and returns how many these are.
func encodeSome[T any](all []T) ([]byte, int, error) {
	for n := len(all); ; n = (n + 1) / 2 {
		b, err := encode(all[:n])
		if err != nil || n == 1 || len(b) <= encodedMost {
			return b, n, err
		}
	}
}

// decode reads what another process wrote.
func decode(b []byte, v any) error {
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(v); err != nil {
		return &api.Error{
			Code: api.CodeInvalid, Message: fmt.Sprintf("what the other program says is not understood: %v", err),
			Hint: "use the same version of Pawl in the server and in the program that serves workflows", Err: err,
		}
	}
	return nil
}
