package server

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/internal/worker"
)

// The type between changes the answers that a worker gets from its server.
type between struct {
	api.Tasks
	kind string                                                     // the kind of the reports that it changes
	left atomic.Int32                                               // number of answers still to change
	what func(send func() ([]api.TaskAnswer, error)) api.TaskAnswer // the replacement for each answer
}

func (b *between) Report(ctx context.Context, reports []api.TaskReport) ([]api.TaskAnswer, error) {
	send := func() ([]api.TaskAnswer, error) { return b.Tasks.Report(ctx, reports) }
	if reports[0].Kind != b.kind || b.left.Add(-1) < 0 {
		return send()
	}
	a := b.what(send)
	if a.Error != nil && a.Error.Op == "send" {
		return nil, a.Error
	}
	answers := make([]api.TaskAnswer, len(reports))
	for i := range answers {
		answers[i] = a
	}
	return answers, nil
}

// works starts a worker of the queue mail, whose work takes a while and gives back its input.
func works(t *testing.T, tasks api.Tasks, takes time.Duration) {
	send := worker.FuncExecutor(func(ctx context.Context, t core.Task, _ worker.Alive) ([]byte, error) {
		select {
		case <-time.After(takes):
			return t.Payload, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	worksWith(t, tasks, send)
}

func worksWith(t *testing.T, tasks api.Tasks, send worker.Executor) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- remote.NewWorker(remote.WorkerConfig{
			Tasks: tasks, Queue: "mail", Executors: map[string]worker.Executor{"Send": send}, Slots: 1,
		}).Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func refusal(code api.Code) func(func() ([]api.TaskAnswer, error)) api.TaskAnswer {
	return func(func() ([]api.TaskAnswer, error)) api.TaskAnswer {
		return api.TaskAnswer{Error: &api.Error{Code: code, Message: "not now"}}
	}
}

// lost sends the reports and returns an answer as if none had arrived.
func lost(send func() ([]api.TaskAnswer, error)) api.TaskAnswer {
	_, _ = send()
	return api.TaskAnswer{Error: &api.Error{Code: api.CodeUncertain, Op: "send"}}
}

// TestTaskAfterBadAnswers checks that a worker hears an error that may pass, or no answer. Its attempt is not lost by
// that.
func TestTaskAfterBadAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		kind     string
		times    int32
		what     func(func() ([]api.TaskAnswer, error)) api.TaskAnswer
		attempts int // 2: the first one did not begin
	}{
		"the answer to a start is lost":          {api.TaskStart, 1, lost, 2},
		"a start is answered by a stalled one":   {api.TaskStart, 1, refusal(api.CodeStalled), 2},
		"looks are answered by an uncertain one": {api.TaskLook, 3, refusal(api.CodeUncertain), 1},
		"looks are answered by a closed one":     {api.TaskLook, 3, refusal(api.CodeClosed), 1},
		"the run is set aside for a while":       {api.TaskComplete, 4, refusal(api.CodeInternal), 1},
		"the answer to the end is lost":          {api.TaskComplete, 1, lost, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				through := &between{Tasks: b.client, kind: c.kind, what: c.what}
				through.left.Store(c.times)
				works(t, through, 10*time.Second)
				run := b.mail("{startToClose: 1000h}")
				pass(time.Hour)
				s := b.step(run)
				if s.Phase != api.StepSucceeded || len(s.Attempts) != c.attempts || s.Lost != 0 {
					t.Errorf("%s after %d attempts, %d lost", s.Phase, len(s.Attempts), s.Lost)
				}
				if through.left.Load() > 0 {
					t.Errorf("the worker did not report %s so often", c.kind)
				}
			})
		})
	}
}

// TestTaskWithTooMuchToSay checks that an end that the server does not take, because it is too large, ends the attempt
// nevertheless.
func TestTaskWithTooMuchToSay(t *testing.T) {
	big := strings.Repeat("x", 20_000)
	for name, c := range map[string]struct {
		send    func(context.Context, core.Task, worker.Alive) ([]byte, error)
		phase   api.StepPhase
		failure string
		tries   int
	}{
		"output": {func(context.Context, core.Task, worker.Alive) ([]byte, error) {
			return []byte(`"` + big + `"`), nil
		}, api.StepFailed, "output_too_large", 1},
		"failure": {func(context.Context, core.Task, worker.Alive) ([]byte, error) {
			return nil, &api.Error{Message: big}
		}, api.StepFailed, "api.Error", 3},
		"details": {func(_ context.Context, _ core.Task, alive worker.Alive) ([]byte, error) {
			for range 20 {
				alive.Heartbeat(json.RawMessage(`"` + big + `"`))
				pass(2 * time.Second)
			}
			return []byte(`1`), nil
		}, api.StepSucceeded, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, func(cfg *Config) { cfg.MaxBody = 10_000 })
				worksWith(t, b.client, worker.FuncExecutor(c.send))
				run := b.mail("{startToClose: 1000h, heartbeat: 10s}")
				pass(time.Hour)
				s := b.step(run)
				failure := ""
				if s.Failure != nil {
					failure = s.Failure.Type
				}
				if s.Phase != c.phase || len(s.Attempts) != c.tries || failure != c.failure {
					t.Errorf("%s after %d attempts: %.200v", s.Phase, len(s.Attempts), s.Failure)
				}
			})
		})
	}
}

// TestTaskIsLostWithTheServer checks a server that is started again after the start of an attempt is durable, and
// before its worker gets the task or says that it begins. Somebody executes it.
func TestTaskIsLostWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		b := newBedOn(t, j)
		run := b.mail("{startToClose: 1000h}")
		tasks, err := b.client.Poll(t.Context(), api.PollRequest{Queue: "mail", Confirm: true})
		if err != nil || len(tasks) != 1 {
			t.Fatal(tasks, err)
		}
		b.close()
		b = newBedOn(t, j)
		works(t, b.client, time.Second)
		pass(time.Hour)
		if s := b.step(run); s.Phase != api.StepSucceeded || len(s.Attempts) != 2 {
			t.Errorf("%s after %d attempts", s.Phase, len(s.Attempts))
		}
	})
}

// TestWorkerOutlivesTheServer checks that a worker goes on with what it does while the server is started again, and
// while it stops.
func TestWorkerOutlivesTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		b := newBedOn(t, j)
		moved := &moving{}
		moved.to.Store(b.client)
		works(t, moved, 10*time.Minute)
		run := b.mail("{startToClose: 1000h}")
		pass(time.Minute)
		b.queues.Drain(t.Context())
		pass(time.Minute)
		b.close()
		pass(time.Minute)
		b = newBedOn(t, j)
		moved.to.Store(b.client)
		pass(20 * time.Minute)
		if s := b.step(run); s.Phase != api.StepSucceeded || len(s.Attempts) != 1 {
			t.Errorf("%s after %d attempts", s.Phase, len(s.Attempts))
		}
	})
}

// moving is a server that is another one later.
type moving struct {
	to atomic.Pointer[httpapi.Client]
}

func (m *moving) Poll(ctx context.Context, r api.PollRequest) ([]api.Task, error) {
	return m.to.Load().Poll(ctx, r)
}

func (m *moving) Report(ctx context.Context, r []api.TaskReport) ([]api.TaskAnswer, error) {
	return m.to.Load().Report(ctx, r)
}
