package client

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/told"
	"github.com/pawl-dev/pawl/policy"
)

// Explanation is a run with everything that explains it. Its JSON is what pawl run show prints with -o json.
type Explanation struct {
	ID, Workflow, WorkflowID string
	IdempotencyKey           string
	Phase                    Phase
	Closing                  Phase  // the phase it will end in, while its hooks run and its steps stop
	Why                      string // why it ended as it did, in a sentence
	Failure                  *policy.Failure
	Input, Output            []byte // JSON; what is not JSON is turned into a JSON string
	State                    []byte // JSON: what its body published last
	StateAt                  time.Time
	CreatedAt                time.Time
	StartAt                  time.Time // the time of a delayed start
	StartedAt, EndedAt       time.Time
	QueuedAt                 time.Time // the time since which the run waits in its queue
	Held                     string    // the limit of its queue that holds it, in a sentence
	HeldUntil                time.Time // no sooner does it begin; zero: when another run ends
	PausedAt                 time.Time
	Wake                     time.Time             // when it next does something on its own
	Deadlines                []DeadlineExplanation // its own, with where they were set
	Binding                  *DeadlineExplanation  // the one that ends it first; nil: none, or its clock stands still
	CancelAsked              bool
	CompensateUntil          time.Time // it was cancelled or expired; its body undoes what it did, until then at most
	Attempt                  int       // its number among the runs that its retry policy made, from 1
	Parent                   string    // id of the run it is a child of
	ParentClose              string    // the fate of the run when its parent ends
	Previous, Next           string    // ids of the runs before and after it in its chain
	NextFrom                 time.Time // when the next run of its chain would begin if this one ended now
	Cron                     string
	Labels, Headers          map[string]string
	Problem                  string // why it cannot go on until somebody acts; see Summary
	Steps                    []StepExplanation
	Operations               []OperationExplanation

	all *api.Run
}

// MarshalJSON writes what pawl run show prints with -o json.
func (e *Explanation) MarshalJSON() ([]byte, error) { return json.Marshal(e.all) }

// StepExplanation is a step as it stands, with all of its attempts.
type StepExplanation struct {
	Name        string // its key: "charge", "charge#2" for the second call with that name
	Kind        string // sleep, wait, flow for a child run, or what does the work
	Queue       string // the queue of a Call; empty: the engine's own
	Event       string // the event that a wait is for
	Update      string // the update that a wait is for
	Child       string // id of the run that its last attempt started
	Phase       Phase
	Reason      policy.Reason // why it was not tried again
	Why         string        // why it ended as it did; of an open one, that it may be what kills its workers
	Failure     *policy.Failure
	Output      []byte // JSON, as in Explanation
	ScheduledAt time.Time
	ReadyAt     time.Time // when its last attempt began to wait for a worker
	StartedAt   time.Time // the start of the attempt that runs now
	EndedAt     time.Time
	NextAt      time.Time             // the next attempt, or the end of a sleep or a wait
	Backoff     time.Duration         // the delay before the last or the next attempt
	MaxAttempts int                   // 0: any number
	Counted     int                   // attempts that count towards MaxAttempts: those lost with their worker do not
	Lost        int                   // attempts in a row that were lost with their worker
	Stopping    bool                  // the function of an ended attempt has not returned yet
	Kept        bool                  // its result comes from an earlier run
	Superseded  bool                  // it was made before the run was retried
	Held        string                // the limit of a queue or service that its attempt waits for, in a sentence
	HeldUntil   time.Time             // no sooner does it go on; zero: when another attempt ends
	Deadlines   []DeadlineExplanation // the deadlines with where they were set
	Binding     *DeadlineExplanation  // the one that ends it first; nil if there is none
	Attempts    []AttemptExplanation
}

// AttemptExplanation is one attempt of a step.
type AttemptExplanation struct {
	Number    int       // the number, from 1
	ReadyAt   time.Time // when it began to wait for a worker
	StartedAt time.Time
	EndedAt   time.Time
	NextAt    time.Time        // the instant of the attempt after it
	Outcome   string           // succeeded, or the kind of its failure; empty if it has not ended
	Limit     policy.LimitKind // the limit that ended it
	Worker    string
	Child     string    // id of the run it started
	Why       string    // its failure in a sentence
	Note      string    // the fault of the retry condition
	StoppedAt time.Time // the attempt ended before its work had; this is when the work was gone, or was abandoned
	Killed    bool      // its process did not stop when it was asked, and was killed
	Abandoned bool      // its function did not return in time
	Held      string    // the limit of a queue or service that held it last before it started, in a sentence
	Failure   *policy.Failure
}

// DeadlineExplanation is a deadline and where it comes from.
type DeadlineExplanation struct {
	Limit  policy.LimitKind
	At     time.Time     // zero: an operation took the deadline away
	Origin string        // where it was set
	After  time.Duration // the length that was set; zero: an instant was
	From   time.Time     // when its clock started
}

// OperationExplanation is an operation that was applied.
type OperationExplanation struct {
	At            time.Time
	Op            Op
	Step          string // empty: of the run
	Actor, Reason string
	Deadlines     []DeadlineExplanation // those it set, with Limit and At only
}

func init() {
	told.Register(told.Words{
		Explain:  func(r *api.Run) any { return explanationOf(r) },
		Event:    func(ev *api.Event) any { return eventOf(ev) },
		Schedule: func(s schedule.Spec) any { return scheduleOf(s) },
		Spec:     func(of any) schedule.Spec { return of.(Schedule).spec() },
	})
}

func explanationOf(r *api.Run) *Explanation {
	held, until := heldOf(r.Held)
	return &Explanation{
		ID: r.Run, Workflow: r.Workflow, WorkflowID: r.WorkflowID, IdempotencyKey: r.Key,
		Phase: Phase(r.Phase), Closing: Phase(r.Closing), Why: r.Why, Failure: r.Failure,
		Input: r.Input, Output: r.Output,
		CreatedAt: r.CreatedAt.Std(), StartAt: r.StartAt.Std(), StartedAt: r.StartedAt.Std(), EndedAt: r.EndedAt.Std(),
		PausedAt: r.PausedAt.Std(), Wake: r.Wake.Std(), Deadlines: each(r.Deadlines, deadlineOf),
		State: r.State, StateAt: r.StateAt.Std(), Binding: bindingOf(r.Binding), CancelAsked: r.CancelAsked,
		CompensateUntil: r.CompensateUntil.Std(), Attempt: r.Attempt, Parent: r.Parent,
		ParentClose: r.ParentClose, Previous: r.Previous, Next: r.Next, NextFrom: r.NextFrom.Std(), Cron: r.Cron,
		Labels: r.Labels, QueuedAt: r.QueuedAt.Std(), Held: held, HeldUntil: until, Headers: r.Headers,
		Problem: r.Problem, Steps: each(r.Steps, stepOf), Operations: each(r.Operations, operationOf), all: r,
	}
}

func stepOf(s *api.Step) StepExplanation {
	held, until := heldOf(s.Held)
	return StepExplanation{
		Name: s.Step, Kind: s.Kind, Queue: s.Queue, Event: cmp.Or(s.Event, strings.Join(s.Any, ", ")),
		Update: s.Update, Child: s.Child, Phase: Phase(s.Phase),
		Reason: reasonOf(s.Reason), Why: s.Why, Failure: s.Failure, Output: s.Output, ScheduledAt: s.ScheduledAt.Std(),
		ReadyAt: s.ReadyAt.Std(), StartedAt: s.StartedAt.Std(), EndedAt: s.EndedAt.Std(), NextAt: s.NextAt.Std(),
		Backoff: s.Backoff.Std(), MaxAttempts: s.MaxAttempts, Counted: s.Counted, Lost: s.Lost, Stopping: s.Stopping,
		Kept: s.Kept, Superseded: s.Superseded, Held: held, HeldUntil: until,
		Deadlines: each(s.Deadlines, deadlineOf), Binding: bindingOf(s.Binding),
		Attempts: each(s.Attempts, explainedAttempt),
	}
}

func heldOf(h *api.Held) (why string, until time.Time) {
	if h == nil {
		return "", time.Time{}
	}
	return h.Why, h.Until.Std()
}

func explainedAttempt(a api.Attempt) AttemptExplanation {
	held, _ := heldOf(a.Held)
	return AttemptExplanation{
		Number: a.Attempt, ReadyAt: a.ReadyAt.Std(), StartedAt: a.StartedAt.Std(), EndedAt: a.EndedAt.Std(),
		NextAt: a.NextAt.Std(), Outcome: a.Outcome, Limit: limitNamed(a.Limit), Worker: a.Worker, Child: a.Child,
		Why: a.Why, Note: a.Note, Held: held, Failure: a.Failure,
		StoppedAt: a.StoppedAt.Std(), Killed: a.Killed, Abandoned: a.Abandoned,
	}
}

func deadlineOf(d api.Deadline) DeadlineExplanation {
	return DeadlineExplanation{
		Limit: limitNamed(d.Limit), At: d.At.Std(), Origin: d.Origin, After: d.After.Std(), From: d.From.Std(),
	}
}

func bindingOf(d *api.Deadline) *DeadlineExplanation {
	if d == nil {
		return nil
	}
	out := deadlineOf(*d)
	return &out
}

func operationOf(a api.Audit) OperationExplanation {
	return OperationExplanation{
		At: a.At.Std(), Op: Op(a.Operation), Step: a.Step, Actor: a.Actor, Reason: a.Reason,
		Deadlines: each(a.Deadlines, func(m api.Move) DeadlineExplanation {
			return DeadlineExplanation{Limit: limitNamed(m.Limit), At: m.At.Std()}
		}),
	}
}

// reasonOf returns the reason with the name. Like limitNamed, it leaves out a name of a later version.
func reasonOf(name string) (r policy.Reason) {
	_ = r.UnmarshalText([]byte(name))
	return r
}

func limitNamed(name string) (l policy.LimitKind) {
	_ = l.UnmarshalText([]byte(name))
	return l
}

// each maps a slice.
func each[From, To any](in []From, to func(From) To) []To {
	out := make([]To, len(in))
	for i, v := range in {
		out[i] = to(v)
	}
	return out
}
