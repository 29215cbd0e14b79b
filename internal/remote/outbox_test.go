package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// fakeTasks is a server whose answers a test gives.
type fakeTasks struct {
	report func(ctx context.Context, reports []api.TaskReport) ([]api.TaskAnswer, error)
	poll   func(ctx context.Context) ([]api.Task, error)
}

func (f *fakeTasks) Report(ctx context.Context, r []api.TaskReport) ([]api.TaskAnswer, error) {
	return f.report(ctx, slices.Clone(r))
}

func (f *fakeTasks) Poll(ctx context.Context, _ api.PollRequest) ([]api.Task, error) {
	return f.poll(ctx)
}

// sending starts an outbox whose requests are answered by answer, and returns it with what it has sent, each request a
// line. end waits until all reports are answered.
func sending(t *testing.T, answer func(r *api.TaskReport) *api.Error) (o *outbox, sent *[]string, end func()) {
	t.Helper()
	sent = &[]string{}
	tasks := &fakeTasks{report: func(_ context.Context, reports []api.TaskReport) ([]api.TaskAnswer, error) {
		answers := make([]api.TaskAnswer, len(reports))
		line := ""
		for i := range reports {
			line += fmt.Sprintf(" %s:%s%s", reports[i].Task, reports[i].Kind, reports[i].Details)
			e := answer(&reports[i])
			if e != nil && e.Op == "request" {
				return nil, e
			}
			answers[i].Error = e
		}
		*sent = append(*sent, strings.TrimSpace(line))
		return answers, nil
	}}
	o = newOutbox(tasks, func(*api.TaskReport, *api.TaskAnswer) {}, slog.New(slog.DiscardHandler))
	ended := make(chan struct{})
	go func() {
		o.run(t.Context())
		close(ended)
	}()
	return o, sent, func() {
		o.finish()
		<-ended
	}
}

// TestOutboxWhileTheServerIsAway checks that while the server is away, only the last signs of life of each task wait.
func TestOutboxWhileTheServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := &api.Error{Code: api.CodeClosed, Op: "request"}
		o, sent, end := sending(t, func(*api.TaskReport) *api.Error { return away })
		o.put(api.TaskReport{Task: "a", Kind: api.TaskHeartbeat, Details: json.RawMessage("0")})
		for i := range 1000 {
			for _, task := range []string{"a", "b"} {
				o.put(api.TaskReport{Task: task, Kind: api.TaskHeartbeat, Details: json.RawMessage(fmt.Sprint(i))})
				o.put(api.TaskReport{Task: task, Kind: api.TaskHeartbeat})
				o.put(api.TaskReport{Task: task, Kind: api.TaskOutput})
			}
			<-time.After(time.Second)
		}
		o.put(api.TaskReport{Task: "a", Kind: api.TaskComplete})
		away = nil
		end()
		const want = "a:heartbeat999 a:output b:heartbeat999 b:output a:complete"
		if got := strings.Join(*sent, ", "); sorted(got) != sorted(want) || !strings.HasSuffix(got, "a:complete") {
			t.Errorf("sent: %s", got)
		}
	})
}

func sorted(line string) string {
	words := strings.Fields(line)
	slices.Sort(words)
	return strings.Join(words, " ")
}

// TestOutboxRepeats checks that a report that the server does not take now is repeated less and less often, and holds
// up no other.
func TestOutboxRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		o, sent, end := sending(t, func(r *api.TaskReport) *api.Error {
			if r.Task == "a" && time.Since(began) < time.Minute {
				tries++
				return &api.Error{Code: api.CodeInternal}
			}
			return nil
		})
		o.put(api.TaskReport{Task: "a", Kind: api.TaskComplete})
		<-time.After(30 * time.Second)
		synctest.Wait()
		before := len(*sent)
		o.put(api.TaskReport{Task: "b", Kind: api.TaskHeartbeat})
		synctest.Wait()
		if got := (*sent)[before:]; len(got) != 1 || got[0] != "b:heartbeat" {
			t.Errorf("at once: %v", got)
		}
		end()
		if tries < 10 || tries > 40 || (*sent)[len(*sent)-1] != "a:complete" {
			t.Errorf("%d tries in a minute: %v", tries, *sent)
		}
	})
}

// TestOutboxRefused checks that one report that the server never takes does not keep it from the others, and another
// takes its place.
func TestOutboxRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, code := range []api.Code{api.CodeInvalid, api.CodeTooLarge} {
			o, sent, end := sending(t, func(r *api.TaskReport) *api.Error {
				if len(r.Output) > 3 || r.Task == "c" {
					return &api.Error{Code: code, Op: "request"}
				}
				return nil
			})
			o.put(api.TaskReport{Task: "a", Kind: api.TaskHeartbeat})
			o.put(api.TaskReport{Task: "b", Kind: api.TaskComplete, Output: json.RawMessage(`"long"`)})
			o.put(api.TaskReport{Task: "c", Kind: api.TaskComplete}) // whatever is said of it
			o.put(api.TaskReport{Task: "d", Kind: api.TaskComplete})
			end()
			if got := strings.Join(*sent, ", "); got != "a:heartbeat, d:complete, b:fail" {
				t.Errorf("%s: sent: %s", code, got)
			}
		}
	})
}

// TestOutboxStoppedForNothing checks that a worker that has stopped work which nobody told to stop says that it is
// lost.
func TestOutboxStoppedForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, sent, end := sending(t, func(r *api.TaskReport) *api.Error {
			if r.Kind == api.TaskStopped {
				return &api.Error{Code: api.CodeConflict}
			}
			return nil
		})
		o.put(api.TaskReport{Task: "a", Kind: api.TaskStopped})
		end()
		if got := strings.Join(*sent, ", "); got != "a:stopped, a:fail" {
			t.Errorf("sent: %s", got)
		}
	})
}

// TestWorkerOfSilentServer checks that a server that does not answer is asked again, and holds up no worker that stops.
func TestWorkerOfSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polls := 0
		ctx, stop := context.WithCancel(t.Context())
		stopped := time.Time{}
		w := NewWorker(WorkerConfig{Queue: "mail", Slots: 1, Other: nil, Tasks: &fakeTasks{
			poll: func(ctx context.Context) ([]api.Task, error) {
				if polls++; polls < 3 {
					<-ctx.Done()
					return nil, &api.Error{Code: api.CodeCancelled, Err: ctx.Err()}
				}
				return []api.Task{{Task: tokenText(mailTask.Token, 7)}}, nil
			},
			report: func(ctx context.Context, r []api.TaskReport) ([]api.TaskAnswer, error) {
				if r[0].Kind == api.TaskStart && stopped.IsZero() {
					stopped = time.Now()
					stop()
				}
				<-ctx.Done()
				return nil, &api.Error{Code: api.CodeUncertain, Err: ctx.Err()}
			},
		}})
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(stopped); polls != 3 || took > flushWithin {
			t.Errorf("%d polls, it took %s to stop", polls, took)
		}
	})
}
