package temporal

import (
	"bytes"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// TestRepeatedEventAfterAReset checks that an event whose request comes again is not told again, though the run that
// had it was reset.
func TestRepeatedEventAfterAReset(t *testing.T) {
	bubble(t, func(b *bed) {
		b.must([2]string{"start", ""})
		b.takeTask(options{})
		b.must([2]string{"answer timer t 1h", ""}, [2]string{"signal go request=r", ""})
		b.reset([]string{"reset", "4"}, options{})
		b.must([2]string{"signal go request=r", ""})
		told := 0
		for _, e := range b.history() {
			if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED {
				told++
			}
		}
		if told != 1 {
			t.Errorf("the event is told %d times", told)
		}
	})
}

// TestEventsBeforeTheStart checks that the history of a run that waits for its start only grows, though events come
// meanwhile.
func TestEventsBeforeTheStart(t *testing.T) {
	bubble(t, func(b *bed) {
		b.must([2]string{"start", ""})
		b.takeTask(options{})
		b.must([2]string{"answer new-as Work delay=1m", ""}, [2]string{"next", ""})
		b.must([2]string{"signal one", ""}, [2]string{"signal two", ""})
		b.history()
		b.must([2]string{"after 2m", ""})
		events := b.history()
		if last := events[len(events)-1]; last.EventType != enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED {
			t.Errorf("the last event is %s", last)
		}
	})
}

// TestTaskBeforeTheStart checks that the events of a task stay as its worker knows them, though the run begins
// meanwhile: an update has made the task due.
func TestTaskBeforeTheStart(t *testing.T) {
	bubble(t, func(b *bed) {
		b.must([2]string{"start delay=2s", ""})
		b.act(words("update u1 until=accepted"))
		b.takeTask(options{})
		task := b.task
		b.must([2]string{"after 3s", ""})
		b.history()
		b.must([2]string{"answer accept u1", ""})
		events := b.history()
		for i, e := range task.History.Events {
			if !bytes.Equal(encoded(t, e), encoded(t, events[i])) {
				t.Errorf("the worker knew event %d as %s, and it is %s", i+1, e, events[i])
			}
		}
	})
}

// TestTimerEndedByAnOperator checks that a workflow hears of a timer that a limit of an operator has ended.
func TestTimerEndedByAnOperator(t *testing.T) {
	bubble(t, func(b *bed) {
		b.must([2]string{"start", ""})
		b.takeTask(options{})
		b.must([2]string{"answer timer t 1h", ""})
		id, err := core.ParseRunID(b.run)
		if err != nil {
			t.Fatal(err)
		}
		err = b.engine.Operate(b.Context(), id, core.Operation{
			Op: core.OpSetPolicy, Actor: "operator", Policy: &policy.Policy{Limits: policy.Limits{
				ScheduleToClose: &policy.Limit{After: time.Second, OnExpire: policy.ExpireCancel},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		b.must([2]string{"after 2s", ""})
		had := b.task
		if b.takeTask(options{}); b.task == had {
			t.Error("the workflow does not hear of it")
		}
	})
}

// TestStartsOfAnOpenRun checks that a request which comes again starts nothing, and that a start may end the run in its
// way, also by the older word for that.
func TestStartsOfAnOpenRun(t *testing.T) {
	bubble(t, func(b *bed) {
		b.must([2]string{"start request=r", ""})
		first := b.run
		b.must([2]string{"start request=r", ""})
		if b.run != first {
			t.Errorf("the request has started %s and %s", first, b.run)
		}
		b.must([2]string{"start request=s reuse=WORKFLOW_ID_REUSE_POLICY_TERMINATE_IF_RUNNING", ""})
		if b.run == first {
			t.Error("no other run is started")
		}
		b.run, b.known = first, nil
		events := b.history()
		if last := events[len(events)-1]; last.EventType != enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED {
			t.Errorf("the run in the way ends with %s", last)
		}
	})
}
