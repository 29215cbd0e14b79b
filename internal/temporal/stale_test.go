package temporal

import (
	"bytes"
	"slices"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/temporal/activities"
)

// must does one thing after the other, each of which has to answer as it is told.
func (b *bed) must(steps ...[2]string) {
	b.Helper()
	for _, s := range steps {
		if got := b.act(words(s[0])); got != s[1] {
			b.Fatalf("%s: %q, want %q", s[0], got, s[1])
		}
	}
}

func words(text string) []string {
	var out []string
	for _, w := range bytes.Fields([]byte(text)) {
		out = append(out, string(w))
	}
	return out
}

const (
	notFound  = "answer: Workflow task not found.\n"
	staleDone = "done a: invalid activityID or activity already timed out or invoking workflow is completed\n"
)

// TestLateAnswers checks that the worker of a task that has timed out, or that was given out anew after a restart,
// changes nothing: the worker that has the task now decides.
func TestLateAnswers(t *testing.T) {
	bubble(t, func(b *bed) {
		b.must([2]string{"start", ""})
		b.takeTask(options{})
		late := b.task
		b.must([2]string{"after 10s", ""})
		b.takeTask(options{})
		b.task, late = late, b.task
		b.must([2]string{"answer timer late 1s", notFound}, [2]string{"refuse", "refuse: Workflow task not found.\n"})
		b.task = late
		b.must([2]string{"answer timer t 1h", ""}, [2]string{"signal go", ""})

		b.takeTask(options{})
		late = b.task
		b.must([2]string{"crash", ""})
		b.takeTask(options{})
		b.task, late = late, b.task
		b.must([2]string{"answer timer late 1s", notFound})
		b.task = late
		b.must([2]string{"answer complete", ""})
		for _, e := range b.history() {
			if id := e.GetTimerStartedEventAttributes().GetTimerId(); id == "late" {
				b.Errorf("event %d is of a worker that had no task", e.EventId)
			}
		}
	})
}

// TestAnswersToOtherProcesses checks that the answer to a task is not taken for that to the task that has the same
// number in the next process.
func TestAnswersToOtherProcesses(t *testing.T) {
	bubble(t, func(b *bed) {
		b.must([2]string{"start", ""})
		b.takeTask(options{})
		late := b.task
		b.must([2]string{"crash", ""})
		b.takeTask(options{})
		if b.task == late {
			b.Fatal("the task is not given out again")
		}
		b.task = late
		b.must([2]string{"answer complete", notFound})
	})
}

// TestForgedAttempts checks that an attempt is ended only by who has its secret, and that what has ended is made
// neither again nor twice, whatever becomes of the process.
func TestForgedAttempts(t *testing.T) {
	bubble(t, func(b *bed) {
		b.must([2]string{"start", ""})
		b.takeTask(options{})
		b.must([2]string{"answer activity a attempt=1h", ""})
		b.act([]string{"work"})
		own := b.acts["a"]
		token, ok := activities.ReadToken(own)
		if !ok {
			b.Fatal("the token cannot be read")
		}
		for _, forged := range []activities.Token{
			{Attempt: token.Attempt, Secret: token.Secret + 1},
			{Attempt: core.Token{Run: token.Attempt.Run, Step: token.Attempt.Step, Attempt: 2}, Secret: token.Secret},
			{Attempt: core.Token{Run: token.Attempt.Run, Step: 7, Attempt: 1}, Secret: token.Secret},
			{Attempt: core.Token{Run: core.RunID{6: 0x70}, Attempt: 1}, Secret: token.Secret},
		} {
			b.acts["a"] = forged.Bytes()
			b.must([2]string{"done a", staleDone})
		}
		b.must([2]string{"crash", ""})
		b.acts["a"] = activities.Token{Attempt: token.Attempt, Secret: token.Secret + 1}.Bytes()
		b.must([2]string{"done a", staleDone})
		b.acts["a"] = own
		b.must([2]string{"done a", ""}, [2]string{"done a", staleDone}, [2]string{"crash", ""},
			[2]string{"done a", staleDone}, [2]string{"work", "work: there is none\n"})
	})
}

// TestPages checks that the pages of a history, one after the other, are the history, and that the token of a page is
// good for its own run only.
func TestPages(t *testing.T) {
	bubble(t, func(b *bed) {
		b.must([2]string{"start", ""})
		for range 5 {
			b.must([2]string{"signal go", ""})
		}
		want := b.history()
		var got []*historypb.HistoryEvent
		q := &workflowservice.GetWorkflowExecutionHistoryRequest{
			Namespace: Namespace, Execution: b.named(), MaximumPageSize: 2,
		}
		for range want {
			out, err := b.server.GetWorkflowExecutionHistory(b.Context(), q)
			if err != nil {
				b.Fatal(err)
			}
			if n := len(out.History.Events); n > 2 {
				b.Errorf("a page has %d events", n)
			}
			got = append(got, out.History.Events...)
			if q.NextPageToken = out.NextPageToken; len(q.NextPageToken) == 0 {
				break
			}
		}
		if !slices.EqualFunc(got, want, func(x, y *historypb.HistoryEvent) bool { return x.EventId == y.EventId }) {
			b.Errorf("the pages have %d events, the history %d", len(got), len(want))
		}
		q.HistoryEventFilterType, q.NextPageToken = enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT, nil
		b.must([2]string{"terminate", ""})
		out, err := b.server.GetWorkflowExecutionHistory(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		last := out.History.Events
		if len(last) != 1 || last[0].EventType != enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED {
			b.Errorf("the last event is %v", last)
		}
		q.NextPageToken = page{core.RunID{6: 0x70}, 0}.bytes()
		if _, err := b.server.GetWorkflowExecutionHistory(b.Context(), q); err == nil {
			b.Error("the token of a page of a run that is not there is taken")
		}
	})
}
