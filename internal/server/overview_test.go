package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// attentionFlow ends as its input says, waits for an event, or sleeps past its deadline.
const attentionFlow = `pawl: 1
name: order
timeout: 10m
input: {type: object, properties: {how: {type: string}, why: {type: string, default: ""}}}
steps:
  - {name: fail, when: "${{ input.how == 'fail' }}", fail: {message: "${{ input.why }}"}}
  - {name: sleep, when: "${{ input.how == 'sleep' }}", sleep: 1h}
  - {name: ask, when: "${{ input.how == 'ask' }}", wait: {event: approved}, timeout: 1d}
  - {name: child, when: "${{ input.how == 'none' }}", noop: {}}
`

// began starts a run of attentionFlow under an id.
func (b *bed) began(id, how, why string) {
	b.Helper()
	_, err := b.client.Start(b.Context(), api.StartRequest{
		Definition: definition(attentionFlow), WorkflowID: id,
		Input: fmt.Appendf(nil, `{"how":%q,"why":%q}`, how, why),
	})
	if err != nil {
		b.Fatal(err)
	}
}

// concerns returns what needs a person, a line each.
func (b *bed) concerns() (lines []string, all []api.Concern) {
	b.Helper()
	a, err := b.client.Attention(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range a.Concerns {
		line := string(c.Level) + ": " + c.Says.Text
		if c.Why != nil {
			line += ": " + c.Why.Text
		}
		lines = append(lines, line)
	}
	return lines, a.Concerns
}

// TestAttention checks that what needs a person is grouped by its cause, the worst first, and keeps its id until it
// changes.
func TestAttention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		if lines, _ := b.concerns(); len(lines) != 0 {
			t.Errorf("without runs there are %q", lines)
		}
		for i := range 3 {
			b.began(fmt.Sprintf("bad-%d", i), "fail", fmt.Sprintf("no stock for item %d", 40+i))
		}
		b.began("other", "fail", "the card expired")
		b.began("ask-1", "ask", "")
		<-time.After(time.Millisecond) // ids of one instant are in no order
		b.began("ask-2", "ask", "")
		b.began("late", "sleep", "")
		b.began("held", "sleep", "")
		op := api.Operation{Operation: api.OpPause, Actor: "ada", Reason: "change freeze"}
		if err := b.client.Operate(b.Context(), "held", op); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		lines, before := b.concerns()
		for i, want := range []string{
			"bad: 3 runs of order failed alike: ", "bad: other failed: ",
			"bad: late will miss its deadline: the deadline comes at ",
			`info: 2 runs of order wait for the event "approved": the oldest is ask-1`,
			"info: held is paused: by ada: change freeze",
		} {
			if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
				t.Errorf("line %d is not %q of %q", i, want, lines)
			}
		}
		if len(before) != 5 || before[0].Runs != 3 || len(before[0].Of) != 3 || before[0].At == 0 {
			t.Errorf("the concerns are %+v", before)
		}
		_, same := b.concerns()
		b.began("bad-3", "fail", "no stock for item 77")
		synctest.Wait()
		_, after := b.concerns()
		if same[0].ID != before[0].ID || after[0].ID == before[0].ID || after[3].ID != before[3].ID {
			t.Errorf("ids: %s, %s, then %s; of another %s, then %s",
				before[0].ID, same[0].ID, after[0].ID, before[3].ID, after[3].ID)
		}
	})
}

// TestOverview checks that the runs of a span are counted by when they began, by workflow, and with how long they took.
func TestOverview(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.began("before", "none", "")
		<-time.After(3 * time.Hour)
		b.began("bad", "fail", "no stock")
		b.began("good", "none", "")
		<-time.After(30 * time.Minute)
		b.began("late", "sleep", "")
		synctest.Wait()
		o, err := b.client.Overview(b.Context(), 2*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if o.All.Runs != 3 || o.All.Failed != 1 || o.Open != 1 || len(o.Parts) != parts ||
			o.Each.Std() != 5*time.Minute {
			t.Errorf("the overview is %+v", o)
		}
		before := o.Parts[parts-7].Runs + o.Parts[parts-6].Runs // half an hour is where two parts meet
		if last := o.Parts[parts-1]; before != 2 || last.Runs != 1 {
			t.Errorf("the parts are %+v", o.Parts)
		}
		if len(o.Flows) != 1 || o.Flows[0].Workflow != "order" || o.Flows[0].Open != 1 || o.Flows[0].Runs != 3 {
			t.Errorf("the flows are %+v", o.Flows)
		}
		if len(o.Due) != 1 || o.Due[0].Name != "late" || o.Due[0].Kind != api.DueMissed {
			t.Errorf("due is %+v", o.Due)
		}
	})
}

// parts is how many parts an overview has.
const parts = 24
