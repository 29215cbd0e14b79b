package remote

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// living adds an attempt with limits, which a worker has.
func living(q *Queues) {
	task := mailTask
	task.Heartbeat, task.Inactivity = (4 * time.Second).Microseconds(), (8 * time.Second).Microseconds()
	q.Keep(task)
}

// beats counts the signs of life that the engine was told.
func (f *fakeEngine) beats() (heartbeats, outputs int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, in := range f.reports {
		if beat, ok := in.(core.Beat); ok && beat.Output {
			outputs++
		} else if ok {
			heartbeats++
		}
	}
	return heartbeats, outputs
}

// TestWhatIsASignOfLife checks that a heartbeat is one for both limits, output for the one of silence, and a look is
// none.
func TestWhatIsASignOfLife(t *testing.T) {
	for kind, want := range map[string][2]int{
		api.TaskHeartbeat: {1, 0}, api.TaskOutput: {0, 1}, api.TaskLook: {0, 0}, api.TaskStart: {0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeEngine{}
			q := newQueues(f)
			defer q.Close()
			living(q)
			<-time.After(7 * time.Second)
			if a := ask(t, q, kind); a.Error != nil {
				t.Error(a.Error)
			}
			synctest.Wait()
			if heartbeats, outputs := f.beats(); heartbeats != want[0] || outputs != want[1] {
				t.Errorf("%s: %d heartbeats, %d outputs", kind, heartbeats, outputs)
			}
		})
	}
}

// TestReportsThatAreRefused checks that a report with another secret, an end that is both, and the stop of work that
// nobody has stopped.
func TestReportsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeEngine{}
		q := newQueues(f)
		defer q.Close()
		living(q)
		token := tokenText(mailTask.Token, 7)
		failure := &policy.Failure{Message: "no"}
		for _, c := range []struct {
			report api.TaskReport
			want   api.Code
		}{
			{api.TaskReport{Task: tokenText(mailTask.Token, 8), Kind: api.TaskHeartbeat}, api.CodeStale},
			{api.TaskReport{Task: token, Kind: api.TaskComplete, Failure: failure}, api.CodeInvalid},
			{api.TaskReport{Task: token, Kind: api.TaskStopped}, api.CodeConflict},
		} {
			answers, err := q.Report(t.Context(), []api.TaskReport{c.report})
			if err != nil {
				t.Fatal(err)
			}
			if e := answers[0].Error; e == nil || e.Code != c.want {
				t.Errorf("%+v is answered with %+v", c.report, answers[0])
			}
		}
		if heartbeats, _ := f.beats(); heartbeats != 0 || len(f.ends) != 0 || len(q.attempts) != 1 {
			t.Errorf("%d heartbeats, %d ends, %d are known", heartbeats, len(f.ends), len(q.attempts))
		}
	})
}

// TestFailureWithoutAKind checks that what a worker does not say of its failure is an error.
func TestFailureWithoutAKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeEngine{}
		q := newQueues(f)
		defer q.Close()
		q.Keep(mailTask)
		if a := f.end(t, q, api.TaskFail, nil); a.Error != nil {
			t.Error(a.Error)
		}
		if len(f.ends) != 1 || f.ends[0].Failure == nil || f.ends[0].Failure.Kind != policy.KindError {
			t.Errorf("the ends are %+v", f.ends)
		}
	})
}

// TestStopIsToldOnce checks that the time after which work is abandoned counts from when its worker first heard that it
// has to stop.
func TestStopIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeEngine{}
		q := newQueues(f)
		defer q.Close()
		living(q)
		q.Revoke(mailTask.Token, policy.KindTimeout)
		for range 4 { // twice the grace of 5 seconds passes after the first time
			if a := ask(t, q, api.TaskLook); a.Stop == "" {
				t.Errorf("the worker is not told to stop: %+v", a)
			}
			<-time.After(3 * time.Second)
		}
		synctest.Wait()
		if len(q.attempts) != 0 {
			t.Error("the work is not abandoned")
		}
	})
}
