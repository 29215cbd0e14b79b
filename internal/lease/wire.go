package lease

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/cron"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// Served is a server's description of a workflow whose function is in another process.
type Served struct {
	Definition     journal.Definition
	Hooks          map[string]*core.StepSpec
	Retry          *policy.Retry
	Execution, Run *policy.Limit
	Compensation   time.Duration
	Queue          core.RunQueue
	Cron           *cron.Written // nil: runs begin when they are started
}

// body returns the workflow as the state machine needs it. It has no functions.
func (w *Served) body() (*body.Function, error) {
	out := &body.Function{
		Hooks: map[string]*body.Hook{}, Retry: w.Retry, Execution: w.Execution, Run: w.Run,
		Compensation: w.Compensation, Queue: w.Queue,
	}
	for name, spec := range w.Hooks {
		out.Hooks[name] = &body.Hook{Spec: spec}
	}
	if w.Cron != nil {
		table, err := w.Cron.Parse()
		if err != nil {
			return nil, fmt.Errorf("workflow %q: cron: %w", w.Definition.Name, err)
		}
		out.Cron = &table
	}
	return out, nil
}

// version is the version of all messages and stored forms.
const version = api.BodiesVersion

// downKind is the kind of a message to a holder.
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

// down is one message to a holder.
type down struct {
	Kind   downKind
	Run    core.RunID
	Lease  uint64
	News   *engine.News  // the news, for begin and news
	Task   *core.Task    // the task, for task
	Left   time.Duration // the time until the task's deadline; 0 if it has none
	Update *body.Update  // the update, for offer
	Token  core.Token    // the token, for revoke
	Why    policy.Kind   // the reason, for revoke
}

// upKind is the kind of a message of a holder.
type upKind uint8

const (
	upDecide  upKind = iota // the body has decided, and attempts have ended
	upReport                // a report on an attempt
	upConfirm               // the same, and the answer tells whether the attempt goes on
	upBegin                 // the body has reached a recorded step, whose attempts may begin
	upConsult               // send all news of the run
	upEnd                   // the call of the body has ended, and the lease with it
	upRefuse                // the body does not accept an update
	upProblem               // why the body cannot go on
	upLeave                 // all leases end; attempts go on
	upGone                  // nothing is at work any longer
)

// up is one message of a holder.
type up struct {
	Kind    upKind
	Run     core.RunID
	Lease   uint64 // 0: the holder has none of the run
	Inputs  []core.Input
	Step    core.StepID     // the step, for begin
	Seen    int             // the news and updates of the lease that the body has got, for end
	Text    string          // the text, for problem
	Update  *body.Update    // the update, for refuse
	Failure *policy.Failure // the failure, for refuse
}

// encodedMost is how many bytes are sent at once, unless a single message is larger.
const encodedMost = 2 << 20

// encodeSome writes as many of all as one request or answer can have, in a list, and returns how many these are.
func encodeSome[A, B any](all []A, one func(*A) B, list func([]B) any) ([]byte, int, error) {
	forms := each(all, one)
	for n := len(all); ; n = (n + 1) / 2 {
		b, err := json.Marshal(list(forms[:n]), json.Deterministic(true))
		if err != nil {
			return nil, n, fmt.Errorf("lease: encode %T: %w", all, err)
		}
		if n == 1 || len(b) <= encodedMost {
			return b, n, nil
		}
	}
}

func encodeDowns(all []down) ([]byte, int, error) {
	return encodeSome(all, downOf, func(l []api.BodyNews) any { return api.BodyNewsList{Version: version, News: l} })
}

func decodeDowns(text []byte) ([]down, error) {
	var l api.BodyNewsList
	err := decode(text, &l, &l.Version)
	if err != nil {
		return nil, err
	}
	all, err := read(l.News, (*reading).down)
	return all, notUnderstood(err)
}

func encodeUps(all []up) ([]byte, int, error) {
	return encodeSome(all, upOf, func(l []api.BodyDecision) any {
		return api.BodyDecisionList{Version: version, Decisions: l}
	})
}

func decodeUps(text []byte) ([]up, error) {
	var l api.BodyDecisionList
	if err := decode(text, &l, &l.Version); err != nil {
		return nil, err
	}
	all, err := read(l.Decisions, (*reading).up)
	return all, notUnderstood(err)
}

func encodeWorkflows(all []Served) ([]byte, error) {
	return json.Marshal(api.BodyWorkflows{Version: version, Workflows: each(all, workflowOf)}, json.Deterministic(true))
}

func decodeWorkflows(text []byte) ([]Served, error) {
	var l api.BodyWorkflows
	if err := decode(text, &l, &l.Version); err != nil {
		return nil, err
	}
	all, err := read(l.Workflows, (*reading).workflow)
	return all, notUnderstood(err)
}

// encodeStored writes a workflow in its stored form.
func encodeStored(w *Served) ([]byte, error) {
	stored := api.StoredBodyWorkflow{Version: api.StoredBodyVersion, Workflow: workflowOf(w)}
	return json.Marshal(stored, json.Deterministic(true))
}

func decodeStored(text []byte) (Served, error) {
	var s api.StoredBodyWorkflow
	err := decode(text, &s, &s.Version)
	if err != nil {
		return Served{}, err
	}
	var r reading
	w := r.workflow(&s.Workflow)
	return w, notUnderstood(r.err)
}

// decode reads what another process wrote. version is where v has the version. A version that this code does not know
// is refused, and so are fields that no version has.
func decode(text []byte, v any, known *int) error {
	err := json.Unmarshal(text, v, json.RejectUnknownMembers(true))
	if err == nil && *known >= 1 && *known <= version {
		return nil
	}
	var head struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(text, &head) == nil && (head.Version < 1 || head.Version > version) {
		err = fmt.Errorf("it is of version %d, this program knows versions up to %d", head.Version, version)
	}
	return notUnderstood(err)
}

func notUnderstood(err error) error {
	if err == nil {
		return nil
	}
	return &api.Error{
		Code: api.CodeInvalid, Message: fmt.Sprintf("the message of the other program cannot be read: %v", err),
		Hint: "use the same version of Pawl in the server and in the program that serves workflows", Err: err,
	}
}
