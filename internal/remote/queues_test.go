package remote

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// fakeEngine notes what it is told.
type fakeEngine struct {
	mu      sync.Mutex
	reports []core.Input
	ends    []core.TaskEnded            // reports that were delivered
	refuses error                       // the answer to a delivery
	saved   func()                      // answers what was delivered last
	states  []error                     // the answers to questions about an attempt, one after the other
	asked   func(q *Queues, number int) // called before such an answer
	queues  *Queues
	number  int
}

func (f *fakeEngine) Report(_ core.RunID, in core.Input) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = append(f.reports, in)
}

func (f *fakeEngine) Deliver(_ core.RunID, in core.Input, done func(error)) {
	if end, ok := in.(core.TaskEnded); ok {
		f.ends = append(f.ends, end)
	}
	f.saved = func() { done(f.refuses) }
}

func (f *fakeEngine) Attempt(_ context.Context, tok core.Token) (engine.AttemptState, error) {
	f.number++
	if f.asked != nil {
		f.asked(f.queues, f.number)
	}
	state := engine.AttemptState{Task: core.Task{Token: tok, Secret: 7}}
	if f.number > len(f.states) {
		return state, nil
	}
	return state, f.states[f.number-1]
}

func (f *fakeEngine) Offered(string, func(string) bool) {}

// notBegun counts the reports that an attempt has not begun.
func (f *fakeEngine) notBegun() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, in := range f.reports {
		end, ok := in.(core.TaskEnded)
		if ok && end.Failure != nil && end.Failure.Kind == policy.KindLost && end.Failure.Type == core.TypeNotBegun {
			n++
		}
	}
	return n
}

func newQueues(f *fakeEngine) *Queues {
	f.queues = New(Config{
		Engine: f, Now: func() core.Time { return 1 }, Own: []string{"exec"},
		Run: func(context.Context, string) (*api.Run, error) { return nil, &api.Error{Code: api.CodeNotFound} },
	})
	return f.queues
}

// polling is a worker that has asked for tasks.
type polling struct {
	leave context.CancelFunc
	tasks chan []api.Task
}

// begin asks for a task in the background.
func begin(t *testing.T, q *Queues, confirm bool) *polling {
	ctx, leave := context.WithCancel(t.Context())
	p := &polling{leave, make(chan []api.Task, 1)}
	go func() {
		tasks, _ := q.Poll(ctx, api.PollRequest{
			Queue: "mail", Max: 1, Wait: api.Duration(30 * time.Second), Confirm: confirm,
		})
		p.tasks <- tasks
	}()
	synctest.Wait()
	return p
}

var mailTask = core.Task{Token: core.Token{Attempt: 1}, Type: "Send", Queue: "mail", Secret: 7}

func ask(t *testing.T, q *Queues, kind string) api.TaskAnswer {
	t.Helper()
	answers, err := q.Report(t.Context(), []api.TaskReport{{Task: tokenText(mailTask.Token, 7), Kind: kind}})
	if err != nil {
		t.Fatal(err)
	}
	return answers[0]
}

// TestSeatOfPollThatLeft checks that a worker that goes between the reservation of its seat and the task does not take
// the task with it: another one gets it, or the engine hears that the attempt has not begun.
func TestSeatOfPollThatLeft(t *testing.T) {
	for name, c := range map[string]struct {
		announce bool // the poll leaves before it is durable that the attempt begins
		other    bool // another poll waits
	}{
		"nobody waits":                {false, false},
		"another waits":               {false, true},
		"announced, nobody waits":     {true, false},
		"announced, another one does": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeEngine{}
				q := newQueues(f)
				defer q.Close()
				first := begin(t, q, true)
				task := mailTask
				task.Secret, task.Announce = q.Reserve("mail", "Send").Secret, c.announce
				leave := func() {
					first.leave()
					<-first.tasks
				}
				other := &polling{leave: func() {}}
				if c.other {
					other = begin(t, q, true)
				}
				if c.announce {
					q.Dispatch(task)
				}
				leave()
				if c.announce {
					f.saved()
				} else {
					q.Dispatch(task)
				}
				synctest.Wait()
				if c.other {
					if got := <-other.tasks; len(got) != 1 || f.notBegun() != 0 {
						t.Errorf("the other worker got %d tasks, %d have not begun", len(got), f.notBegun())
					}
				} else if f.notBegun() != 1 || len(q.attempts) != 0 {
					t.Errorf("%d have not begun, %d are known", f.notBegun(), len(q.attempts))
				}
			})
		})
	}
}

// TestBeginningIsNotSaved checks that an attempt whose beginning could not be saved is given back, unless it is over.
func TestBeginningIsNotSaved(t *testing.T) {
	for code, lost := range map[api.Code]int{api.CodeStalled: 1, api.CodeUncertain: 1, api.CodeStale: 0} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeEngine{refuses: &api.Error{Code: code}}
			q := newQueues(f)
			defer q.Close()
			p := begin(t, q, true)
			task := mailTask
			task.Secret, task.Announce = q.Reserve("mail", "Send").Secret, true
			q.Dispatch(task)
			f.saved()
			if f.notBegun() != lost || len(q.attempts) != 0 {
				t.Errorf("%s: %d have not begun, %d are known", code, f.notBegun(), len(q.attempts))
			}
			began := time.Now()
			if got, took := <-p.tasks, time.Since(began); len(got) != 0 || took > 0 {
				t.Errorf("%s: the worker got %d tasks after %s, when it could have had others", code, len(got), took)
			}
		})
	}
}

// TestStartAtTheLastMoment checks that only one of two things happens if a worker reports that it starts a task just
// when the task is given to another one.
func TestStartAtTheLastMoment(t *testing.T) {
	for name, c := range map[string]struct {
		first string // the one that gets the lock first
		code  api.Code
		lost  int
	}{
		"the start is first": {"start", "", 0},
		"the timer is first": {"timer", api.CodeStale, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeEngine{}
				q := newQueues(f)
				defer q.Close()
				p := begin(t, q, true)
				task := mailTask
				secret := q.Reserve("mail", "Send").Secret
				q.mu.Lock()
				q.seats[7] = q.seats[secret]
				delete(q.seats, secret)
				q.mu.Unlock()
				q.Dispatch(task)
				<-p.tasks
				q.mu.Lock()
				a := q.attempts[task.Token]
				q.mu.Unlock()
				var answer api.TaskAnswer
				start := func() { q.tellToStop(t.Context(), a, &answer) } // the report has found the attempt before
				timer := func() { q.giveBack(task.Token, notBegun("too late")) }
				if c.first == "start" {
					start()
					timer()
				} else {
					timer()
					start()
				}
				if got := answer.Error; (got == nil) != (c.code == "") || got != nil && got.Code != c.code {
					t.Errorf("the start is answered with %v", got)
				}
				if f.notBegun() != c.lost {
					t.Errorf("%d were given back", f.notBegun())
				}
			})
		})
	}
}

// TestAttemptEndsBeforeItIsKnown checks that an attempt that the engine has not told of does not stay known if it ends
// while a report makes it known.
func TestAttemptEndsBeforeItIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeEngine{states: []error{nil, &api.Error{Code: api.CodeStale}}}
		f.asked = func(q *Queues, number int) {
			if number == 1 {
				q.Revoke(mailTask.Token, policy.KindTimeout)
			}
		}
		q := newQueues(f)
		defer q.Close()
		if a := ask(t, q, api.TaskLook); a.Error == nil || a.Error.Code != api.CodeStale || len(q.attempts) != 0 {
			t.Errorf("%+v, %d are known", a, len(q.attempts))
		}
	})
}

// TestAttemptIsForgotten checks that an attempt that the engine does not know any more is forgotten with its next sign
// of life. One of which the engine cannot tell at present is not.
func TestAttemptIsForgotten(t *testing.T) {
	for code, known := range map[api.Code]int{api.CodeStale: 0, api.CodeStalled: 1, api.CodeInternal: 1} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeEngine{states: []error{&api.Error{Code: code}}}
			q := newQueues(f)
			defer q.Close()
			q.Keep(mailTask)
			if a := ask(t, q, api.TaskHeartbeat); a.Error == nil || a.Error.Code != code || len(q.attempts) != known {
				t.Errorf("%s: %+v, %d are known", code, a, len(q.attempts))
			}
		})
	}
}

// TestReportWhileTheServerStops checks that while the server stops, workers are not told that their attempts have
// ended.
func TestReportWhileTheServerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueues(&fakeEngine{})
		q.Keep(mailTask)
		a := q.attempts[mailTask.Token]
		q.Close()
		var answer api.TaskAnswer
		if !q.tellToStop(t.Context(), a, &answer) || answer.Error == nil || answer.Error.Code != api.CodeClosed {
			t.Errorf("%+v", answer)
		}
	})
}

// TestOwnTypes checks that other workers get no tasks that the engine's process executes itself.
func TestOwnTypes(t *testing.T) {
	q := newQueues(&fakeEngine{})
	for _, types := range [][]string{nil, {"Send"}} {
		p := &poll{PollRequest: api.PollRequest{Types: types}}
		if q.takes(p.Types, "exec") || !q.takes(p.Types, "Send") || q.takes(p.Types, "Print") != (types == nil) {
			t.Errorf("a worker of %v", types)
		}
	}
	if err := q.check(&api.PollRequest{Types: []string{"exec"}}); api.CodeOf(err) != api.CodeInvalid {
		t.Error(err)
	}
}

// TestKeptAttemptOfSilentWorker checks that after a restart of the engine an attempt is lost if its worker promised to
// report something and does not. Nothing is expected of other workers.
func TestKeptAttemptOfSilentWorker(t *testing.T) {
	for name, c := range map[string]struct {
		confirms, looks bool
		lost            int
	}{
		"silent":     {true, false, 1},
		"it looks":   {true, true, 0},
		"no promise": {false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeEngine{}
				q := newQueues(f)
				defer q.Close()
				task := mailTask
				task.Confirms = c.confirms
				q.Keep(task)
				<-time.After(time.Minute)
				if c.looks {
					ask(t, q, api.TaskLook)
				}
				<-time.After(time.Hour)
				synctest.Wait()
				if len(f.reports) != c.lost || len(q.attempts) != 1-c.lost {
					t.Fatalf("%v, %d are known", f.reports, len(q.attempts))
				}
				if c.lost > 0 {
					if end := f.reports[0].(core.TaskEnded); end.Failure.Kind != policy.KindLost {
						t.Errorf("%+v", end.Failure)
					}
				}
			})
		})
	}
}

// TestConfirmedTaskGoesToAnother checks that a task of which it is recorded that its worker confirms it goes to no
// worker that does not.
func TestConfirmedTaskGoesToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeEngine{}
		q := newQueues(f)
		defer q.Close()
		first := begin(t, q, true)
		seat := q.Reserve("mail", "Send")
		if !seat.Confirms {
			t.Error("the seat does not say what its worker has promised")
		}
		first.leave()
		<-first.tasks
		other := begin(t, q, false)
		task := mailTask
		task.Secret, task.Confirms = seat.Secret, seat.Confirms
		q.Dispatch(task)
		other.leave()
		if got := <-other.tasks; len(got) != 0 || f.notBegun() != 1 {
			t.Errorf("the other worker got %d tasks, %d have not begun", len(got), f.notBegun())
		}
	})
}
