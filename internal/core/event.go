package core

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/policy"
)

// The types of events. They are a contract: callers, webhooks and scripts match them.
const (
	EventRunScheduled = "run.scheduled" // its start is delayed
	EventRunQueued    = "run.queued"    // it waits for its queue
	EventRunHeld      = "run.held"      // a limit of its queue holds the run
	EventRunStarted   = "run.started"
	EventRunWaiting   = "run.waiting"
	EventRunPaused    = "run.paused"
	EventRunResumed   = "run.resumed"
	EventRunWarning   = "run.deadline_warning"
	EventRunStopping  = "run.stopping" // work of it was told to stop; what comes then waits until that is gone
	// EventRunCompensating: it was cancelled or has expired, and its body undoes what it did.
	EventRunCompensating = "run.compensating"

	EventStepScheduled      = "step.scheduled"
	EventStepSuspended      = "step.suspended"       // it sleeps, or waits for an event
	EventStepResumed        = "step.resumed"         // the sleep or the wait is over
	EventStepRetryScheduled = "step.retry_scheduled" // another attempt follows
	EventStepRetried        = "step.retried"         // it waits for a worker
	EventStepWarning        = "step.deadline_warning"

	EventAttemptHeld      = "attempt.held" // it waits for a limit of its queue or service
	EventAttemptStarted   = "attempt.started"
	EventAttemptHeartbeat = "attempt.heartbeat"
	EventAttemptEnded     = "attempt.ended"
	EventAttemptLost      = "attempt.lost"
	EventAttemptKilled    = "attempt.killed"    // its work was told to stop, did not in its grace, and is gone now
	EventAttemptAbandoned = "attempt.abandoned" // its work was told to stop and did not

	EventSignalReceived = "event.received"

	EventStatePublished = "state.published" // the body shows what it is at
	EventUpdateAccepted = "update.accepted"
	EventUpdateAnswered = "update.answered"

	// A run's and a step's terminal phase follow these, an operation's name the last.
	eventRun, eventStep, eventOperation = "run.", "step.", "operation."
)

// Event is one thing that happened to a run, as histories tell it. Events are derived from the run's entries, so one
// entry always gives the same events with the same numbers.
type Event struct {
	Run      RunID
	Seq      int // the number in the run, from 1
	At       Time
	Offset   time.Duration // the time since the run was created
	Type     string
	Step     string // the step's key; empty if it is about the run
	StepID   StepID // NoStep: it is about the run
	ItemName string // the name of the item that it is about; empty if it has none
	Attempt  int    // 0: none
	Phase    string // the terminal phase
	Reason   policy.Reason
	Limit    policy.LimitKind // the limit it is about
	Deadline Time             // the instant that limit ends at
	NextAt   Time             // the next attempt, a sleep's end, a delayed start
	Took     time.Duration    // the time from an attempt's start to its end
	Worker   string
	Child    RunID // the child run an attempt started, or the next run of the chain
	Name     string
	Actor    string
	Why      string // the actor's reason, a skipped step's, or what was wrong with a retry condition
	Failure  *policy.Failure
	Data     []byte // JSON: input, output, payload, a heartbeat's details
	// unmatched says why its step's policy does not retry the failure.
	unmatched string
}

// MarshalJSON writes the event as the API and the command line show it: instants in RFC 3339 with UTC, what is absent
// left out.
func (e Event) MarshalJSON() ([]byte, error) {
	out := struct {
		Seq        int              `json:"seq"`
		Time       string           `json:"time"`
		OffsetMs   int64            `json:"offsetMs"`
		Run        RunID            `json:"run"`
		Type       string           `json:"type"`
		Step       string           `json:"step,omitempty"`
		ItemName   string           `json:"itemName,omitempty"`
		Attempt    int              `json:"attempt,omitempty"`
		Phase      string           `json:"phase,omitempty"`
		Reason     string           `json:"reason,omitempty"`
		Limit      policy.LimitKind `json:"limit,omitempty"`
		Deadline   string           `json:"deadline,omitempty"`
		NextAt     string           `json:"nextAt,omitempty"`
		DurationMs int64            `json:"durationMs,omitempty"`
		Worker     string           `json:"worker,omitempty"`
		Child      string           `json:"child,omitempty"`
		Name       string           `json:"name,omitempty"`
		Actor      string           `json:"actor,omitempty"`
		Why        string           `json:"why,omitempty"`
		Failure    *policy.Failure  `json:"failure,omitempty"`
		Data       json.RawMessage  `json:"data,omitempty"`
		Text       string           `json:"text,omitempty"`
	}{
		Seq: e.Seq, Time: stamp(e.At), OffsetMs: e.Offset.Milliseconds(), Run: e.Run, Type: e.Type, Step: e.Step,
		ItemName: e.ItemName,
		Attempt:  e.Attempt, Phase: e.Phase, Reason: e.Reason.String(), Limit: e.Limit, Deadline: stamp(e.Deadline),
		NextAt: stamp(e.NextAt), DurationMs: e.Took.Milliseconds(), Worker: e.Worker, Name: e.Name, Actor: e.Actor,
		Why: e.Why, Failure: e.Failure, Data: payload(e.Data), Text: e.Text(),
	}
	if e.Child != (RunID{}) {
		out.Child = e.Child.String()
	}
	return json.Marshal(out)
}

// stamp writes an instant as JSON does; "" where there is none.
func stamp(at Time) string {
	if at == 0 {
		return ""
	}
	return at.String()
}

// payload makes bytes fit for JSON; bytes that are not JSON become a text.
func payload(b []byte) json.RawMessage {
	if len(b) == 0 || utf8.Valid(b) && json.Valid(b) {
		return b
	}
	text, err := json.Marshal(string(b))
	if err != nil {
		return nil
	}
	return text
}

// Text formats the event as one line for people, without its instant, type and step.
func (e Event) Text() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if e.Attempt != 0 {
		add("attempt %d", e.Attempt)
	}
	if e.Name != "" {
		add("%s", e.Name)
	}
	if e.Worker != "" {
		add("on %s", e.Worker)
	}
	if e.Took > 0 {
		add("after %s", Span(e.Took))
	}
	if e.Type == EventAttemptEnded && e.Failure == nil {
		add("succeeded")
	}
	switch e.Type {
	case EventAttemptKilled:
		add("its work did not stop when it was asked")
	case EventAttemptAbandoned:
		add("its work did not stop")
	}
	if e.Failure != nil {
		add("%s", Sentence(e.Failure))
	}
	if e.Reason != policy.ReasonNone && e.Reason != policy.ReasonCancelled && e.Reason != policy.ReasonOperator {
		add("not retried: %s", reasonWords(e.Reason, e.unmatched))
	}
	e.instants(add)
	if e.Child != (RunID{}) {
		add("run %s", e.Child)
	}
	if e.Actor != "" {
		add("by %s", e.Actor)
	}
	if e.Why != "" {
		add("%s", e.Why)
	}
	if e.ItemName != "" {
		add("item %s", e.ItemName)
	}
	return strings.Join(parts, ", ")
}

const noRetries = "the step has no retries"

// Once reports whether a step has one attempt only: it has no retry policy, or one that allows no other attempt.
func (s *Step) Once() bool {
	retry := s.Effective().Retry
	return retry == nil || retry.MaxAttempts == 1
}

// Unmatched says why the policy of a step does not retry its failure.
func Unmatched(s *Step) string {
	switch retry := s.Effective().Retry; {
	case s.Once():
		return noRetries
	case retry.When != "":
		return "retry.when is false"
	case s.Failure != nil:
		return "failures of the kind " + s.Failure.Kind.String() + " are not retried"
	}
	return "the retry policy does not retry this"
}

// reasonWords says why no attempt follows; unmatched is why the step's policy does not retry its failure.
func reasonWords(r policy.Reason, unmatched string) string {
	switch r {
	case policy.ReasonTimeoutNotRetryable:
		if unmatched == noRetries {
			return noRetries
		}
		return "the policy does not retry after this limit"
	case policy.ReasonNonRetryable:
		return "this failure is never retried"
	case policy.ReasonNotMatched:
		return unmatched
	case policy.ReasonExpressionError:
		return "the retry condition is broken"
	case policy.ReasonAttemptsExhausted:
		return "all attempts are used up"
	case policy.ReasonRetriesOff:
		return noRetries
	case policy.ReasonNoTimeLeft:
		return "the next attempt could not begin before the deadline"
	case policy.ReasonWorkerLost:
		return "too many attempts in a row were lost with their worker"
	default:
		return strings.ReplaceAll(r.String(), "_", " ")
	}
}

// instants adds what is to come, as a distance from the event.
func (e Event) instants(add func(string, ...any)) {
	switch {
	case e.NextAt == 0:
	case e.Type == EventStepRetryScheduled:
		add("next attempt in %s", Span(max(e.NextAt.Sub(e.At), 0)))
	case e.Type == EventRunScheduled:
		add("starts in %s", Span(max(e.NextAt.Sub(e.At), 0)))
	default:
		add("until %s", e.NextAt)
	}
	switch {
	case e.Limit == policy.LimitNone || e.Failure != nil:
	case e.Deadline == 0:
		add("%s removed", deadlineName(e.Limit))
	case e.Deadline < e.At:
		add("the %s passed %s ago", deadlineName(e.Limit), Span(e.At.Sub(e.Deadline)))
	default:
		add("%s in %s", deadlineName(e.Limit), Span(e.Deadline.Sub(e.At)))
	}
}

func deadlineName(kind policy.LimitKind) string {
	if kind == policy.LimitDeadline {
		return "deadline"
	}
	return kind.String() + " deadline"
}

// Span formats a duration for people: in milliseconds below a second, in tenths below ten, and in seconds above.
func Span(d time.Duration) string {
	switch {
	case d < time.Second:
		return duration.Format(d.Truncate(time.Millisecond))
	case d < 10*time.Second:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Truncate(100*time.Millisecond).Seconds()), ".0") + "s"
	default:
		return duration.Format(d.Truncate(time.Second))
	}
}

// Sentence formats a failure and its causes as one line for people: what failed and what came before it.
func Sentence(f *policy.Failure) string {
	text := f.Message
	switch {
	case text == "" && f.Limit != policy.LimitNone:
		text = f.Limit.String() + " limit expired"
	case text == "":
		text = f.Kind.String()
		if f.Type != "" && f.Type != text {
			text += " " + f.Type
		}
		if f.Code != 0 {
			text += fmt.Sprintf(" (code %d)", f.Code)
		}
	}
	if f.Limit != policy.LimitNone && f.Origin != "" {
		text += " (set at " + f.Origin + ")"
	}
	if f.Cause != nil && !strings.Contains(text, beginning(f.Cause.Message)) {
		link := "; caused by: "
		if f.Kind == policy.KindTimeout {
			link = "; before that: "
		}
		text += link + Sentence(f.Cause)
	}
	return strings.Join(strings.Fields(PlainText(text)), " ")
}

// escapes are the sequences with which programs colour what they print, move the cursor and set titles.
var escapes = regexp.MustCompile(`\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)`)

// PlainText returns a text without escape sequences for terminals.
func PlainText(text string) string {
	if !strings.Contains(text, "\x1b") {
		return text
	}
	return escapes.ReplaceAllString(text, "")
}

// ends leaves out the middle of a long text. In a failure that came up through many runs, the two ends say most: which
// runs are nearest, and what went wrong.
func ends(text string) string {
	const most, kept = 500, 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:kept], "") + " … " + strings.ToValidUTF8(text[len(text)-kept:], "")
}

// beginning returns the part of a text that every failure with this text shows, even if it leaves out the middle.
func beginning(text string) string { return text[:min(len(text), 150)] }
