package remote

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// TestNoTimeLeft checks that a worker that gets a task at its deadline or later is not told that there is none.
func TestNoTimeLeft(t *testing.T) {
	task := core.Task{Deadline: 5, Bound: policy.LimitScheduleToClose}
	for now, most := range map[core.Time]time.Duration{4: time.Microsecond, 5: time.Microsecond, 9: time.Microsecond} {
		left := leftOf(task, now)
		if left.Deadline.Std() <= 0 || left.Deadline.Std() > most || left.Limit != "scheduleToClose" {
			t.Errorf("at %d there is %v left", now, left)
		}
	}
	if left := leftOf(core.Task{}, 9); left != (api.Left{}) {
		t.Errorf("without a deadline there is %v left", left)
	}
}

// end reports the end of an attempt, which the engine answers with an error, or saves.
func (f *fakeEngine) end(t *testing.T, q *Queues, kind string, refuses error) api.TaskAnswer {
	t.Helper()
	f.refuses = refuses
	answer := make(chan api.TaskAnswer, 1)
	go func() { answer <- ask(t, q, kind) }()
	synctest.Wait()
	f.saved()
	return <-answer
}

// TestEndHasTheLastDetails checks that details that have waited to be reported come with the end, also with an end that
// is reported again because it could not be saved.
func TestEndHasTheLastDetails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeEngine{}
		q := newQueues(f)
		defer q.Close()
		q.Keep(mailTask)
		beat := api.TaskReport{
			Task: tokenText(mailTask.Token, 7), Kind: api.TaskHeartbeat, Details: []byte(`{"page": 7}`),
		}
		if _, err := q.Report(t.Context(), []api.TaskReport{beat}); err != nil {
			t.Fatal(err)
		}
		if a := f.end(t, q, api.TaskFail, &api.Error{Code: api.CodeStalled}); a.Error == nil || len(q.attempts) != 1 {
			t.Errorf("%+v, %d are known", a, len(q.attempts))
		}
		if a := f.end(t, q, api.TaskFail, nil); a.Error != nil || len(q.attempts) != 0 {
			t.Errorf("%+v, %d are known", a, len(q.attempts))
		}
		if len(f.reports) != 0 || len(f.ends) != 2 {
			t.Fatalf("%d beats, %d ends", len(f.reports), len(f.ends))
		}
		for i, end := range f.ends {
			if string(end.Details) != `{"page": 7}` || end.Failure == nil {
				t.Errorf("end %d is %+v, with details %s", i, end, end.Details)
			}
		}
	})
}

// TestTaskThatIsNeverStarted checks that a task goes to another worker if the one that got it does not report that it
// starts.
func TestTaskThatIsNeverStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeEngine{}
		q := newQueues(f)
		defer q.Close()
		p := begin(t, q, true)
		task := mailTask
		task.Secret = q.Reserve("mail", "Send").Secret
		q.Dispatch(task)
		if got := <-p.tasks; len(got) != 1 || got[0].StartBy.Std() != 10*time.Second {
			t.Fatalf("the worker got %+v", got)
		}
		<-time.After(9 * time.Second)
		synctest.Wait()
		if f.notBegun() != 0 {
			t.Error("it was taken away too early")
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if f.notBegun() != 1 || len(q.attempts) != 0 {
			t.Errorf("%d have not begun, %d are known", f.notBegun(), len(q.attempts))
		}
	})
}
