package core

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/policy"
)

const epoch Time = 1_700_000_000_000_000

// transcript is one conversation with the machine.
type transcript struct {
	def     *fixture
	run     *Run
	next    *Start // the run that follows it in its chain
	entries []Entry
	hold    bool // workers do not take what is offered
	stick   bool // revoked work does not stop by itself
}

// TestMachine runs the transcripts under testdata/machine. After every input the records are folded into a fresh
// state, which must be the same. Regenerate with -rewrite.
func TestMachine(t *testing.T) {
	datadriven.Walk(t, "testdata/machine", func(t *testing.T, path string) {
		tr := &transcript{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := tr.do(t, d)
			tr.checkReplay(t)
			return out
		})
	})
}

func (tr *transcript) do(t *testing.T, d *datadriven.TestData) string {
	var b strings.Builder
	now := tr.now(t, d)
	switch d.Cmd {
	case "define":
		def, err := parseFixture(d.Input)
		fatal(t, err)
		*tr = transcript{def: def, run: NewRun(RunID{6: 0x70, 15: 7}), hold: d.HasArg("hold"), stick: d.HasArg("stick")}
		return "ok\n"
	case "workers":
		tr.hold = d.HasArg("hold")
		return "ok\n"
	case "crash":
		tr.run = Restore(tr.run.ID, tr.def.definition(), tr.entries)
		tr.input(&b, Recovered{}, now)
	case "next":
		tr.run, tr.entries = NewRun(RunID{6: 0x70, 15: tr.run.ID[15] + 1}), nil
		tr.input(&b, *tr.next, now)
	case "wake":
	default:
		tr.input(&b, tr.parse(t, d), now)
	}
	fmt.Fprintf(&b, "= %s", tr.run.Phase)
	if w := tr.run.Wake(); w != 0 {
		fmt.Fprintf(&b, ", wakes at %s", offset(w))
	}
	b.WriteString("\n")
	return b.String()
}

// now returns the argument t or, for a tick, the instant at which the run wants one.
func (tr *transcript) now(t *testing.T, d *datadriven.TestData) Time {
	if d.HasArg("t") {
		var s string
		d.ScanArgs(t, "t", &s)
		return epoch.Add(mustDuration(s))
	}
	if tr.run == nil {
		return epoch
	}
	if d.Cmd == "tick" {
		return tr.run.Wake()
	}
	return max(tr.run.LastAt(), epoch)
}

func (tr *transcript) parse(t *testing.T, d *datadriven.TestData) Input {
	id, n := tr.target(t, d)
	switch d.Cmd {
	case "start":
		return tr.parseStart(t, d)
	case "started":
		return TaskStarted{Step: id, Attempt: n, Worker: "w"}
	case "ok":
		return TaskEnded{Step: id, Attempt: n, Output: []byte(`"out"`), Details: []byte(text(t, d, "details"))}
	case "fail":
		return TaskEnded{Step: id, Attempt: n, Failure: parseFailure(t, d)}
	case "leave":
		return TaskEnded{Step: id, Attempt: n, Failure: &policy.Failure{Kind: policy.KindLost, Type: TypeWorkerClosed}}
	case "stopped":
		return TaskStopped{Step: id, Attempt: n, Abandoned: d.HasArg("abandoned")}
	case "beat":
		in := Beat{Step: id, Attempt: n, Output: d.HasArg("output"), Details: []byte(text(t, d, "details"))}
		if v := text(t, d, "at"); v != "" {
			in.At = epoch.Add(mustDuration(v))
		}
		return in
	case "signal":
		return SignalReceived{Name: text(t, d, "name"), ID: text(t, d, "id"), Payload: []byte(text(t, d, "data"))}
	case "child":
		var phase RunPhase
		fatal(t, phase.UnmarshalText([]byte(text(t, d, "phase"))))
		return ChildEnded{Step: id, Attempt: n, Phase: phase, Output: []byte(`"child"`)}
	case "tick":
		return Tick{}
	case "admit":
		return Admitted{}
	case "hold":
		return NotAdmitted{Held{Reason: HeldConcurrency, Name: text(t, d, "queue")}}
	case "op":
		return tr.parseOperation(t, d, id)
	default:
		t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
		return nil
	}
}

// target finds the step argument and its current attempt, or the one given as n.
func (tr *transcript) target(t *testing.T, d *datadriven.TestData) (StepID, int) {
	if !d.HasArg("step") {
		return NoStep, 0
	}
	s, ok := tr.run.Lookup(text(t, d, "step"))
	if !ok {
		return 999, 0
	}
	n := s.Attempt
	if d.HasArg("n") {
		d.ScanArgs(t, "n", &n)
	}
	return s.ID, n
}

func (tr *transcript) parseStart(t *testing.T, d *datadriven.TestData) Start {
	in := Start{Workflow: "test", Queue: RunQueue{Name: text(t, d, "queue"), Key: text(t, d, "key")}}
	if v := text(t, d, "within"); v != "" {
		in.Within = []string{v}
	}
	if v := text(t, d, "run"); v != "" {
		in.Run = &policy.Limit{After: mustDuration(v), Origin: "test"}
		if d.HasArg("warn") {
			in.Run.Warn = 80
		}
	}
	if v := text(t, d, "execution"); v != "" {
		in.Execution = &policy.Limit{After: mustDuration(v), Origin: "test"}
	}
	if v := text(t, d, "until"); v != "" {
		in.ExecutionAt = RunLimit{At: epoch.Add(mustDuration(v)), Origin: "test"}
	}
	if v := text(t, d, "delay"); v != "" {
		in.At = epoch.Add(mustDuration(v))
	}
	if v := text(t, d, "keep"); v != "" {
		for i, spec := range tr.def.specs {
			if spec.Name == v {
				in.Keep = append(in.Keep, Kept{Def: int32(i), Item: -1, Phase: StepSucceeded, Output: []byte(`"kept"`)})
			}
		}
	}
	return in
}

func (tr *transcript) parseOperation(t *testing.T, d *datadriven.TestData, step StepID) Operation {
	in := Operation{Step: step, Actor: "me", StopClock: d.HasArg("stop")}
	fatal(t, in.Op.UnmarshalText([]byte(d.CmdArgs[0].Key)))
	if v := text(t, d, "by"); v != "" {
		in.By = mustDuration(v)
	}
	if v := text(t, d, "to"); v == "none" {
		in.To = policy.FarFuture
	} else if v != "" {
		in.To = epoch.Add(mustDuration(v))
	}
	if v := text(t, d, "limit"); v != "" {
		fatal(t, in.Limit.UnmarshalText([]byte(v)))
	}
	if v := text(t, d, "retry"); v != "" {
		r, err := policy.DecodeRetry(v)
		fatal(t, err)
		in.Policy = &policy.Policy{Retry: r}
		for _, kind := range policy.StepLimits {
			if v := text(t, d, kind.String()); v != "" {
				in.Policy.Set(kind, &policy.Limit{After: mustDuration(v)})
			}
		}
	}
	return in
}

func parseFailure(t *testing.T, d *datadriven.TestData) *policy.Failure {
	f := &policy.Failure{Kind: policy.KindError, Type: text(t, d, "type"), NonRetryable: d.HasArg("nonRetryable")}
	if v := text(t, d, "kind"); v != "" {
		fatal(t, f.Kind.UnmarshalText([]byte(v)))
	}
	if v := text(t, d, "limit"); v != "" {
		fatal(t, f.Limit.UnmarshalText([]byte(v)))
	}
	if v := text(t, d, "after"); v != "" {
		delay := mustDuration(v)
		f.RetryAfter = &delay
	}
	return f
}

func text(t *testing.T, d *datadriven.TestData, key string) string {
	var s string
	if d.HasArg(key) {
		d.ScanArgs(t, key, &s)
	}
	return s
}

// input feeds one input and, unless workers hold, what follows from its effects: offers are taken, stops are
// confirmed.
func (tr *transcript) input(b *strings.Builder, in Input, now Time) {
	out, err := Advance(tr.run, tr.def.definition(), in, now)
	if err != nil {
		_, msg, _ := strings.Cut(err.Error(), tr.run.ID.String()+": ")
		fmt.Fprintf(b, "refused (%s): %s\n", err.(*Error).Code, msg)
		return
	}
	if len(out.Entry.Records) > 0 {
		tr.entries = append(tr.entries, out.Entry)
		fmt.Fprintf(b, "%s\n", offset(out.Entry.At))
	}
	for _, rec := range out.Entry.Records {
		fmt.Fprintf(b, "  %s\n", tr.describe(rec))
	}
	for _, e := range out.Effects {
		fmt.Fprintf(b, "  > %s\n", describeEffect(e))
	}
	for _, e := range out.Effects {
		switch e := e.(type) {
		case Offer:
			if !tr.hold {
				tr.input(b, TaskStarted{Step: e.Step, Attempt: e.Attempt, Worker: "w"}, now)
			}
		case Closed:
			tr.next = e.Next
		case Revoke:
			if !tr.stick && !tr.run.Phase.Closed() {
				tr.input(b, TaskStopped{Step: e.Step, Attempt: e.Attempt}, now)
			}
		}
	}
}

// checkReplay folds the entries again: the state must be the one in memory.
func (tr *transcript) checkReplay(t *testing.T) {
	if tr.run == nil || len(tr.entries) == 0 {
		return
	}
	again := Restore(tr.run.ID, tr.def.definition(), tr.entries)
	a, b := visible(tr.run), visible(again)
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("replay differs:\n memory %+v\n replay %+v", a, b)
	}
	if tr.run.Wake() != again.Wake() {
		t.Fatalf("replay wakes at %s, memory at %s", offset(again.Wake()), offset(tr.run.Wake()))
	}
}

// visible returns the state without its derived fields.
func visible(r *Run) Run {
	c := *r
	c.forgetDecider()
	c.def, c.wakes, c.byKey = nil, wakes{}, nil
	if len(c.Signals) == 0 {
		c.Signals = nil
	}
	return c
}

func until(t Time) string {
	if t == 0 {
		return "none"
	}
	return offset(t)
}

func offset(t Time) string { return "+" + t.Sub(epoch).String() }

// describe prints a record's type and what of it is set.
func (tr *transcript) describe(rec Record) string {
	v := reflect.ValueOf(rec)
	var b strings.Builder
	b.WriteString(v.Type().Name())
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		if f.IsZero() && name != "Step" {
			continue
		}
		switch x := f.Interface().(type) {
		case StepID:
			if x != NoStep {
				fmt.Fprintf(&b, " %s", tr.run.Steps[x].Key())
			}
		case *StepSpec:
			fmt.Fprintf(&b, " %s", x.Name)
		case int32:
			if x >= 0 {
				fmt.Fprintf(&b, " [%d]", x)
			}
		case Time:
			fmt.Fprintf(&b, " %s=%s", name, offset(x))
		case RunLimit:
			if x.At == 0 {
				fmt.Fprintf(&b, " %s=%s after it begins", name, x.After)
				break
			}
			fmt.Fprintf(&b, " %s=%s", name, offset(x.At))
		case *policy.Failure:
			fmt.Fprintf(&b, " %s", describeFailure(x))
		case []byte:
			fmt.Fprintf(&b, " %s=%s", name, x)
		case RunID:
			fmt.Fprintf(&b, " %s=…", name)
		case bool:
			fmt.Fprintf(&b, " %s", name)
		case Chain, DefinitionID:
		case *policy.Policy:
			fmt.Fprintf(&b, " %s", x.Retry)
		default:
			fmt.Fprintf(&b, " %s=%v", name, x)
		}
	}
	return b.String()
}

func describeFailure(f *policy.Failure) string {
	s := f.Kind.String()
	if f.Limit != policy.LimitNone {
		s += "(" + f.Limit.String() + ")"
	}
	if f.Type != "" && f.Kind != policy.KindTimeout && f.Kind != policy.KindCancelled {
		s += ":" + f.Type
	}
	if f.Cause != nil {
		s += " because " + describeFailure(f.Cause)
	}
	return s
}

func describeEffect(e Effect) string {
	switch e := e.(type) {
	case Dispatch:
		s := fmt.Sprintf("Dispatch %s attempt %d", e.Task.StepName, e.Task.Token.Attempt)
		if e.Task.Deadline != 0 {
			s += fmt.Sprintf(" until %s (%s)", offset(e.Task.Deadline), e.Task.Bound)
		}
		if e.Task.Heartbeat != 0 {
			s += " heartbeat=" + duration.Format(time.Duration(e.Task.Heartbeat)*time.Microsecond)
		}
		if e.Task.Inactivity != 0 {
			s += " inactivity=" + duration.Format(time.Duration(e.Task.Inactivity)*time.Microsecond)
		}
		if e.Task.Details != nil {
			s += fmt.Sprintf(" details=%s", e.Task.Details)
		}
		if e.Task.Announce {
			s += " announce"
		}
		return s
	case Offer:
		if e.Group > 0 {
			return fmt.Sprintf("Offer %d attempt %d, at most %d suspects at once", e.Step, e.Attempt, e.Group)
		}
		return fmt.Sprintf("Offer %d attempt %d", e.Step, e.Attempt)
	case Revoke:
		return fmt.Sprintf("Revoke %d attempt %d (%s)", e.Step, e.Attempt, e.Reason)
	case StartChild:
		s := fmt.Sprintf("StartChild %d attempt %d", e.Step, e.Attempt)
		if e.Execution.At != 0 {
			s += " until " + offset(e.Execution.At)
		}
		return s
	case Closed:
		if e.Next != nil {
			return fmt.Sprintf("Closed %s, next run at %s", e.Phase, offset(e.Next.At))
		}
		return fmt.Sprintf("Closed %s", e.Phase)
	case StopChild:
		return fmt.Sprintf("StopChild %s", e.Op)
	case BoundChild:
		return fmt.Sprintf("BoundChild from %s to %s", until(e.Was), until(e.Is))
	case Withdraw:
		return fmt.Sprintf("Withdraw %d attempt %d", e.Step, e.Attempt)
	default:
		return fmt.Sprintf("%T", e)
	}
}
