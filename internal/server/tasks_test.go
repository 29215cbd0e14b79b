package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

const mailFlow = `pawl: 1
name: order
steps:
  - name: send
    task: {queue: mail, type: Send, input: {to: "${{ input.to }}"}}
    timeout: {TIMEOUT}
    retry: "fixed(3, 1s)"
output: "${{ steps.send.output }}"
`

// pass lets the time of a synctest bubble pass.
func pass(d time.Duration) { <-time.After(d) }

// mail starts a run with one task for the queue mail.
func (b *bed) mail(timeout string) string {
	b.Helper()
	d := definition(strings.Replace(mailFlow, "{TIMEOUT}", timeout, 1))
	st, err := b.embedded.Start(b.Context(), api.StartRequest{Definition: d, Input: json.RawMessage(`{"to":"ada"}`)})
	if err != nil {
		b.Fatal(err)
	}
	return st.Run
}

// poll takes the tasks that there are, at most n.
func (b *bed) poll(n int, wait time.Duration) []api.Task {
	b.Helper()
	tasks, err := b.client.Poll(b.Context(), api.PollRequest{
		Queue: "mail", Worker: "w", Max: n, Wait: api.Duration(wait),
	})
	if err != nil {
		b.Fatal(err)
	}
	return tasks
}

// report sends one report and returns its answer.
func (b *bed) report(r api.TaskReport) api.TaskAnswer {
	b.Helper()
	answers, err := b.client.Report(b.Context(), []api.TaskReport{r})
	if err != nil {
		b.Fatal(err)
	}
	return answers[0]
}

// step returns the first step of a run.
func (b *bed) step(run string) *api.Step {
	b.Helper()
	r, err := b.embedded.Run(b.Context(), run)
	if err != nil {
		b.Fatal(err)
	}
	return r.Steps[0]
}

// outcome waits for a run's end.
func (b *bed) outcome(run string) api.Outcome {
	b.Helper()
	out, err := b.embedded.Wait(b.Context(), run)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// TestTask checks that a worker takes a task, reports its progress, and completes it, and that no attempt has started
// before somebody asks.
func TestTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		run := b.mail("{startToClose: 1m, heartbeat: 10s}")
		pass(time.Hour) // a queue without workers costs an attempt none of its time
		if s := b.step(run); s.Phase != api.StepScheduled || s.StartedAt != 0 {
			t.Fatalf("nobody has asked for it, and it is %s, started at %s", s.Phase, s.StartedAt)
		}
		tasks := b.poll(5, 0)
		if len(tasks) != 1 || string(tasks[0].Input) != `{"to":"ada"}` || tasks[0].Type != "Send" ||
			tasks[0].Run != run || tasks[0].Attempt != 1 || tasks[0].Key == "" {
			t.Fatalf("%+v", tasks)
		}
		if l := tasks[0].Left; l.Deadline.Std() != time.Minute || l.Limit != "startToClose" ||
			l.Heartbeat.Std() != 10*time.Second {
			t.Errorf("%+v", l)
		}
		if more := b.poll(5, time.Second); len(more) != 0 {
			t.Errorf("a second worker got %+v", more)
		}
		token := tasks[0].Task
		for i := range 7 { // 49s in all
			pass(7 * time.Second)
			a := b.report(api.TaskReport{
				Task: token, Kind: api.TaskHeartbeat, Details: json.RawMessage(fmt.Sprintf(`{"at":%d}`, i)),
			})
			if a.Error != nil || a.Stop != "" || a.Paused || a.Left == nil || a.Left.Deadline == 0 {
				t.Fatalf("heartbeat %d: %+v", i, a)
			}
		}
		if err := b.embedded.Operate(t.Context(), run, api.Operation{Operation: api.OpPause}); err != nil {
			t.Fatal(err)
		}
		beat := api.TaskReport{Task: token, Kind: api.TaskHeartbeat}
		if a := b.report(beat); !a.Paused || a.Error != nil || a.Stop != "" {
			t.Errorf("of a paused run: %+v", a)
		}
		if err := b.embedded.Operate(t.Context(), run, api.Operation{Operation: api.OpResume}); err != nil {
			t.Fatal(err)
		}
		a := b.report(api.TaskReport{Task: token, Kind: api.TaskComplete, Output: json.RawMessage(`{"id":7}`)})
		if a.Error != nil {
			t.Fatal(a.Error)
		}
		if out := b.outcome(run); out.Phase != api.RunSucceeded || string(out.Output) != `{"id":7}` {
			t.Errorf("%+v", out)
		}
		if s := b.step(run); s.Attempts[0].Worker != "w" || len(s.Attempts) != 1 {
			t.Errorf("%+v", s.Attempts)
		}
		again := b.report(api.TaskReport{Task: token, Kind: api.TaskComplete})
		if again.Error == nil || again.Error.Code.HTTPStatus() != 409 {
			t.Errorf("a second report of the end: %+v", again)
		}
		again = b.report(api.TaskReport{Task: token, Kind: api.TaskComplete, Output: json.RawMessage(`{ "id": 7 }`)})
		if again.Error != nil {
			t.Errorf("the same report, whose answer was lost: %+v", again.Error)
		}
	})
}

// TestTaskOfLostWorker checks that the limits of a task notice a vanished worker, and that its late report is refused
// with the reason.
func TestTaskOfLostWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		run := b.mail("{startToClose: 1h, heartbeat: 10s}")
		first := b.poll(1, 0)[0]
		details := json.RawMessage(`{"page":3}`)
		if a := b.report(api.TaskReport{Task: first.Task, Kind: api.TaskHeartbeat, Details: details}); a.Error != nil {
			t.Fatal(a.Error)
		}
		began := time.Now()
		next := b.poll(1, time.Minute) // waits until another attempt is ready
		if len(next) != 1 || next[0].Attempt != 2 || string(next[0].Details) != `{"page":3}` {
			t.Fatalf("%+v", next)
		}
		// The limit, then the time in which the worker could have heard of it; the retry delay runs meanwhile.
		if took := time.Since(began); took < 15*time.Second || took > 17*time.Second {
			t.Errorf("the next attempt came after %s", took)
		}
		if at := b.step(run).Attempts[0]; at.Limit != "heartbeat" || !at.Abandoned {
			t.Errorf("%+v", at)
		}
		for _, kind := range []string{
			api.TaskHeartbeat, api.TaskStart, api.TaskLook, api.TaskComplete, api.TaskFail, api.TaskStopped,
		} {
			e := b.report(api.TaskReport{Task: first.Task, Kind: kind}).Error
			if e == nil || e.Code != api.CodeStale || !strings.Contains(e.Message, "timeout, heartbeat; attempt 2") {
				t.Errorf("a late %s: %v", kind, e)
			}
		}
		status, _, text := b.plain("POST", "/api/v1/tasks/"+first.Task+"/complete", `{"output":1}`)
		if status != 409 || !strings.Contains(text, "attempt 2 is there by now") {
			t.Errorf("%d %s", status, text)
		}
		status, _, text = b.plain("POST", "/api/v1/tasks/"+next[0].Task+"/complete", `{"output":{"n":1}}`)
		if status != 204 {
			t.Errorf("%d %s", status, text)
		}
		if out := b.outcome(run); string(out.Output) != `{"n":1}` {
			t.Errorf("%+v", out)
		}
	})
}

// TestTaskIsCancelled checks that a worker hears with its next report that its attempt was cancelled. The run ends when
// it has stopped.
func TestTaskIsCancelled(t *testing.T) {
	for name, c := range map[string]struct {
		kind      string
		abandoned bool
		takes     time.Duration // the time until the run has ended
	}{
		"stopped":             {api.TaskStopped, false, time.Second},
		"could not stop":      {api.TaskStopped, true, time.Second},
		"completes after all": {api.TaskComplete, false, time.Second},
		"says nothing more":   {"", true, 11 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				run := b.mail("{startToClose: 1h}")
				task := b.poll(1, 0)[0]
				if err := b.embedded.Operate(t.Context(), run, api.Operation{Operation: api.OpCancel}); err != nil {
					t.Fatal(err)
				}
				pass(time.Second)
				began := time.Now().Add(-time.Second)
				look := api.TaskReport{Task: task.Task, Kind: api.TaskLook}
				if a := b.report(look); a.Stop != "cancelled" || a.Error != nil {
					t.Fatalf("%+v", a)
				}
				if c.kind != "" {
					a := b.report(api.TaskReport{Task: task.Task, Kind: c.kind, Abandoned: c.abandoned})
					if (a.Error != nil) != (c.kind == api.TaskComplete) {
						t.Errorf("%+v", a)
					}
				}
				for !b.step(run).Phase.Closed() || b.step(run).Stopping {
					pass(100 * time.Millisecond)
				}
				if took := time.Since(began); took < c.takes || took > c.takes+2*time.Second {
					t.Errorf("its work was gone after %s", took)
				}
				if at := b.step(run).Attempts[0]; at.Abandoned != c.abandoned || at.Outcome != "cancelled" {
					t.Errorf("%+v", at)
				}
			})
		})
	}
}

// TestTaskTokens checks that forged tokens change nothing.
func TestTaskTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		run := b.mail("{startToClose: 1h}")
		task := b.poll(1, 0)[0].Task
		refused := 0
		for i := range len(task) {
			for _, c := range "Ab_9" {
				forged := task[:i] + string(c) + task[i+1:]
				if forged == task {
					continue
				}
				a := b.report(api.TaskReport{Task: forged, Kind: api.TaskComplete})
				if a.Error == nil {
					t.Fatalf("%s is taken for %s", forged, task)
				}
				refused++
			}
		}
		for _, bad := range []string{"x", strings.Repeat("A", 44), strings.Repeat("A", 4000), task + "A", task[:20]} {
			if status, _, text := b.plain("POST", "/api/v1/tasks/"+bad+"/complete", ""); status < 400 || status >= 500 {
				t.Errorf("%s: %d %s", bad, status, text)
			}
		}
		if refused < 100 || b.step(run).Phase != api.StepRunning {
			t.Errorf("%d were refused, the step is %s", refused, b.step(run).Phase)
		}
		if a := b.report(api.TaskReport{Task: task, Kind: api.TaskComplete}); a.Error != nil {
			t.Error(a.Error)
		}
	})
}

// TestTaskGoesToAnother checks that a task whose worker has gone, or does not say that it starts it, goes to another
// one at once, and it counts for nothing.
func TestTaskGoesToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		run := b.mail("{startToClose: 1h}")
		request := api.PollRequest{Queue: "mail", Wait: api.Duration(time.Minute), Confirm: true}
		tasks, err := b.client.Poll(t.Context(), request)
		if err != nil || len(tasks) != 1 || tasks[0].StartBy == 0 {
			t.Fatalf("%+v %v", tasks, err)
		}
		second := b.poll(1, time.Minute) // its worker says nothing for 10s
		if len(second) != 1 || second[0].Attempt != 2 || second[0].Counted != 1 {
			t.Fatalf("%+v", second)
		}
		late := api.TaskReport{Task: tasks[0].Task, Kind: api.TaskStart}
		if e := b.report(late).Error; e == nil || e.Code != api.CodeStale {
			t.Errorf("the first worker may begin: %v", e)
		}
		failure := &policy.Failure{Kind: policy.KindFailed, Message: "no such box", NonRetryable: true, Code: 550}
		if a := b.report(api.TaskReport{Task: second[0].Task, Kind: api.TaskFail, Failure: failure}); a.Error != nil {
			t.Fatal(a.Error)
		}
		if out := b.outcome(run); out.Phase != api.RunFailed || out.Failure.Cause == nil && out.Failure.Code != 550 {
			t.Errorf("%+v", out)
		}
	})
}

// TestTaskWhenWorkerLeaves checks that a worker that goes while it waits takes no task with it.
func TestTaskWhenWorkerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := b.client.Poll(ctx, api.PollRequest{Queue: "mail", Wait: api.Duration(time.Minute)})
			left <- err
		}()
		synctest.Wait()
		if n := b.queues.Waiting(); n != 1 {
			t.Fatalf("%d wait", n)
		}
		cancel()
		if err := <-left; api.CodeOf(err) != api.CodeCancelled {
			t.Error(err)
		}
		synctest.Wait()
		if n := b.queues.Waiting(); n != 0 {
			t.Errorf("%d wait", n)
		}
		run := b.mail("{startToClose: 1h}")
		synctest.Wait()
		if s := b.step(run); s.Phase != api.StepScheduled {
			t.Errorf("a worker that has gone has it: %s", s.Phase)
		}
	})
}

// TestTasksShareSeats checks that seats are shared by the types of a worker: of 3 seats, 3 attempts start, whatever
// their types are.
func TestTasksShareSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		flow := "pawl: 1\nname: order\nsteps:\n"
		for i := range 10 {
			flow += fmt.Sprintf("  - {name: s%d, task: {queue: mail, type: T%d}}\n", i, i%3)
		}
		st, err := b.embedded.Start(t.Context(), api.StartRequest{Definition: definition(flow)})
		if err != nil {
			t.Fatal(err)
		}
		if tasks := b.poll(3, time.Minute); len(tasks) != 3 {
			t.Errorf("%d tasks for 3 seats", len(tasks))
		}
		tasks, err := b.client.Poll(t.Context(), api.PollRequest{
			Queue: "mail", Types: []string{"T0"}, Max: 100, Wait: api.Duration(time.Minute), // one of four is left
		})
		for _, task := range tasks {
			if task.Type != "T0" {
				t.Errorf("a worker of T0 got %s", task.Type)
			}
		}
		r, runErr := b.embedded.Run(t.Context(), st.Run)
		if err = errors.Join(err, runErr); err != nil {
			t.Fatal(err)
		}
		running := 0
		for _, s := range r.Steps {
			if s.Phase == api.StepRunning {
				running++
			}
		}
		if running != 3+len(tasks) || len(tasks) == 0 {
			t.Errorf("%d attempts run, the workers have %d", running, 3+len(tasks))
		}
	})
}

// TestTasksOutliveTheEngine checks workers that have tasks while the process with the engine is started again: these
// go on, and their reports count. Tasks that were told to stop are stopped.
func TestTasksOutliveTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		b := newBedOn(t, j)
		run := b.mail("{startToClose: 1m, heartbeat: 30s}")
		task := b.poll(1, 0)[0]
		stopped := b.mail("{startToClose: 1h}")
		told := b.poll(1, 0)[0]
		if err := b.embedded.Operate(t.Context(), stopped, api.Operation{Operation: api.OpCancel}); err != nil {
			t.Fatal(err)
		}
		b.close()
		b = newBedOn(t, j)
		if s := b.step(run); s.Phase != api.StepRunning || s.Attempt != 1 {
			t.Fatalf("%+v", s)
		}
		pass(20 * time.Second)
		if a := b.report(api.TaskReport{Task: task.Task, Kind: api.TaskHeartbeat}); a.Error != nil || a.Stop != "" ||
			a.Left.Deadline.Std() > 40*time.Second {
			t.Fatalf("%+v", a)
		}
		a := b.report(api.TaskReport{Task: task.Task, Kind: api.TaskComplete, Output: json.RawMessage(`"x"`)})
		if a.Error != nil {
			t.Fatal(a.Error)
		}
		if out := b.outcome(run); string(out.Output) != `"x"` || len(b.step(run).Attempts) != 1 {
			t.Errorf("%+v %+v", out, b.step(run).Attempts)
		}
		if out := b.outcome(stopped); out.Phase != api.RunCancelled {
			t.Errorf("%+v", out)
		}
		if e := b.report(api.TaskReport{Task: told.Task, Kind: api.TaskComplete}).Error; e == nil {
			t.Error("an attempt that was cancelled is completed")
		}
	})
}

// TestWorker checks that a Worker executes tasks as a pool of the engine's process does: it drains, tells functions
// to stop, and hands back unfinished tasks.
func TestWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var most, now, done atomic.Int32
		send := worker.FuncExecutor(func(ctx context.Context, t core.Task, alive worker.Alive) ([]byte, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			alive.Heartbeat([]byte(`1`))
			select {
			case <-time.After(3 * time.Second):
				done.Add(1)
				return t.Payload, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- remote.NewWorker(remote.WorkerConfig{
				Tasks: b.client, Queue: "mail", Executors: map[string]worker.Executor{"Send": send}, Slots: 3,
				DrainWithin: 2 * time.Second,
			}).Run(ctx)
		}()
		var runs []string
		for range 10 {
			runs = append(runs, b.mail("{startToClose: 20s, heartbeat: 10s}"))
		}
		for _, run := range runs {
			if out := b.outcome(run); out.Phase != api.RunSucceeded || string(out.Output) != `{"to":"ada"}` {
				t.Errorf("%+v", out)
			}
		}
		if most.Load() != 3 || done.Load() != 10 {
			t.Errorf("%d at once, %d done", most.Load(), done.Load())
		}

		cancelled := b.mail("{startToClose: 20s}")
		pass(time.Second)
		if err := b.embedded.Operate(t.Context(), cancelled, api.Operation{Operation: api.OpCancel}); err != nil {
			t.Fatal(err)
		}
		if out := b.outcome(cancelled); out.Phase != api.RunCancelled || b.step(cancelled).Attempts[0].Abandoned {
			t.Errorf("%+v %+v", out, b.step(cancelled).Attempts)
		}

		left := b.mail("{startToClose: 20s}")
		pass(500 * time.Millisecond)
		stop() // 2.5s of work are left, and 2s of patience
		if err := <-ended; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if s := b.step(left); s.Phase != api.StepScheduled || s.Attempt != 2 || s.Counted != 1 || s.Lost != 0 {
			t.Errorf("what the worker gave back: %+v", s)
		}
	})
}

// TestBadPolls checks that senseless polls are refused.
func TestBadPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for _, r := range []api.PollRequest{
			{Queue: "mail", Max: 1001},
			{Queue: "mail", Max: -1},
			{Queue: "", Types: []string{"exec"}},
			{Queue: "mail", Types: slices.Repeat([]string{"T"}, 1001)},
		} {
			if _, err := b.client.Poll(t.Context(), r); api.CodeOf(err) != api.CodeInvalid {
				t.Errorf("%d types, max %d: %v", len(r.Types), r.Max, err)
			}
		}
		if status, _, text := b.plain("POST", "/api/v1/tasks/poll", `{"queue":"mail","wait":"soon"}`); status != 400 {
			t.Errorf("%d %s", status, text)
		}
		if e := b.report(api.TaskReport{Task: "x", Kind: api.TaskLook}).Error; e == nil || e.Code != api.CodeInvalid {
			t.Error(e)
		}
	})
}
