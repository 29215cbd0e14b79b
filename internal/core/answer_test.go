package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/pawl-dev/pawl/policy"
)

// answering is the definition of transcripts whose body is asked in writing. It has no hooks.
var answering = &Definition{NewDecider: func(*Run) Decider { return unhooked{} }, HasBody: true, Answers: true}

type unhooked struct{ outside }

func (d unhooked) Decide(r *Run, closed []StepID, now Time) []Command {
	if r.Closing != nil {
		return nil
	}
	return d.outside.Decide(r, closed, now)
}

// TestAnswers runs the transcripts under testdata/answers, of runs whose body is asked in writing. After every input
// the records are folded into a fresh state, which must be the same. Regenerate with -rewrite.
//
//	answer turn=0 seen=1 again     its decisions are the lines below:
//	task a fixed(2,1s)
//	sleep b 10s
//	cancel b | ask a | close succeeded | close continued
func TestAnswers(t *testing.T) {
	datadriven.Walk(t, "testdata/answers", func(t *testing.T, path string) {
		tr := &transcript{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "define" {
				*tr = transcript{
					def: &fixture{whole: answering}, run: NewRun(RunID{6: 0x70, 15: 7}), hold: d.HasArg("hold"),
				}
				return "ok\n"
			}
			out := ""
			if d.Cmd == "answer" {
				var b strings.Builder
				tr.input(&b, tr.answer(t, d), tr.now(t, d))
				out = fmt.Sprintf("%s= %s\n", b.String(), tr.run.Phase)
			} else {
				out = tr.do(t, d)
			}
			tr.checkReplay(t)
			return out
		})
	})
}

// answer reads an answer.
func (tr *transcript) answer(t *testing.T, d *datadriven.TestData) Commands {
	a := Answer{Turn: tr.run.answered, Seen: tr.run.Seq, Began: tr.run.LastAt(), Again: d.HasArg("again")}
	if d.HasArg("turn") {
		d.ScanArgs(t, "turn", &a.Turn)
	}
	if d.HasArg("seen") {
		d.ScanArgs(t, "seen", &a.Seen)
	}
	out := []Command{a}
	if d.HasArg("bare") {
		out = nil
	}
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		out = append(out, command(t, words))
	}
	return Commands{Commands: out}
}

// command reads one decision.
func command(t *testing.T, words []string) Command {
	spec := &StepSpec{Name: words[1], Def: -1, Type: "test"}
	switch words[0] {
	case "task":
		if len(words) > 2 {
			r, err := policy.DecodeRetry(words[2])
			fatal(t, err)
			spec.Policy.Retry = r
		}
		return Schedule{Spec: spec, Item: -1, Group: NoStep}
	case "sleep":
		spec.Kind = KindSleep
		return Schedule{Spec: spec, Item: -1, Group: NoStep, For: mustDuration(words[2])}
	case "cancel":
		return CancelStep{Key: words[1]}
	case "ask":
		return CancelStep{Key: words[1], Ask: true}
	default:
		c := Close{Output: []byte(`"end"`)}
		fatal(t, c.Phase.UnmarshalText([]byte(words[1])))
		return c
	}
}

// TestAnsweredEventsAreBounded checks that a run whose body is asked in writing remembers as many ids of events as
// others do.
func TestAnsweredEventsAreBounded(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 7})
	do := func(in Input) {
		t.Helper()
		if _, err := Advance(r, answering, in, r.LastAt().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	do(Start{})
	for i := range signalIDs + 5 {
		do(SignalReceived{Name: "go", ID: fmt.Sprint(i), Payload: []byte("1")})
	}
	do(SignalReceived{Name: "go"})
	do(Commands{Commands: []Command{Answer{Seen: r.Seq}}})
	if n := len(r.Signals); n != signalIDs || r.Signals[0].ID != "5" || r.Signals[0].Payload != nil {
		t.Errorf("%d events are kept, the first is %+v", n, r.Signals[0])
	}
}
