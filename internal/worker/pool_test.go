package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker/workertest"
	"github.com/pawl-dev/pawl/policy"
)

func newTestPool(t *testing.T, executors map[string]Executor) (*Pool, *reports) {
	t.Helper()
	r := newReports()
	p := NewPool(PoolConfig{Executors: executors, Reporter: r})
	t.Cleanup(func() { closePool(t, p) })
	return p, r
}

func closePool(t *testing.T, p *Pool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), workertest.Patience)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		t.Error(err)
	}
}

// executorFunc is an Executor of a function that returns a Result.
type executorFunc func(ctx context.Context, t core.Task, alive Alive) Result

func (f executorFunc) Execute(ctx context.Context, t *core.Task, alive Alive) Result {
	return f(ctx, *t, alive)
}

// obedient works until it is told to stop.
var obedient = executorFunc(func(ctx context.Context, _ core.Task, _ Alive) Result {
	<-ctx.Done()
	return Result{Failure: Stopped(ctx)}
})

func TestPoolReportsTheEnd(t *testing.T) {
	p, r := newTestPool(t, map[string]Executor{
		"echo": FuncExecutor(func(_ context.Context, t core.Task, _ Alive) ([]byte, error) { return t.Payload, nil }),
		"noop": Noop{}, "fail": Fail{},
	})
	p.Dispatch(workertest.Task("echo", `{"a":1}`))
	if end := next[core.TaskEnded](t, r); string(end.Output) != `{"a":1}` || end.Failure != nil ||
		end.Step != 4 || end.Attempt != 2 {
		t.Errorf("echo ended with %+v", end)
	}
	for payload, want := range map[string]string{``: ``, `null`: ``, `{}`: ``, `{"output": {"b": 2}}`: `{"b": 2}`} {
		p.Dispatch(workertest.Task("noop", payload))
		if end := next[core.TaskEnded](t, r); string(end.Output) != want || end.Failure != nil {
			t.Errorf("noop of %s ended with %s, %v", payload, end.Output, end.Failure)
		}
	}
	p.Dispatch(workertest.Task("noop", `{"outptu": 1}`))
	workertest.WantFailure(t, next[core.TaskEnded](t, r).Failure, policy.KindFailed, "invalid_payload")
}

func TestFail(t *testing.T) {
	for payload, want := range map[string]string{
		``: `{"kind":"failed"}`,
		`{"type":"declined","message":"no","code":7,"nonRetryable":true}`: `{"kind":"failed",` +
			`"type":"declined","message":"no","code":7,"nonRetryable":true}`,
		`{"kind":"error","retryAfter":"5s"}`: `{"kind":"error","retryAfter":"5s"}`,
		`{"kind":"error","retryAfter":250}`:  `{"kind":"error","retryAfter":"250ms"}`,
	} {
		if got := workertest.JSON(t, Fail{}.Do(workertest.Task("fail", payload)).Failure); got != want {
			t.Errorf("%s gave %s, want %s", payload, got, want)
		}
	}
	for _, payload := range []string{`{"kind":"lost"}`, `[`} {
		res := Fail{}.Do(workertest.Task("fail", payload))
		workertest.WantFailure(t, res.Failure, policy.KindFailed, "invalid_payload")
	}
}

func TestPoolRevoke(t *testing.T) {
	causes := make(chan error, 1)
	p, r := newTestPool(t, map[string]Executor{
		"obedient": obedient,
		"tells": executorFunc(func(ctx context.Context, _ core.Task, _ Alive) Result {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return Result{Output: []byte(`"done all the same"`)}
		}),
		"stubborn": executorFunc(func(ctx context.Context, _ core.Task, _ Alive) Result {
			<-ctx.Done()
			return Result{Abandoned: true, Failure: Stopped(ctx)}
		}),
	})
	for name, abandoned := range map[string]bool{"obedient": false, "tells": false, "stubborn": true} {
		task := workertest.Task(name, "")
		p.Dispatch(task)
		p.Dispatch(task) // a second call changes nothing
		p.Revoke(task.Token, policy.KindTimeout)
		if got := next[core.TaskStopped](t, r); got.Abandoned != abandoned || got.Step != 4 || got.Attempt != 2 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	var revoked *RevokedError
	if cause := <-causes; !errors.Is(cause, ErrRevoked) || !errors.As(cause, &revoked) ||
		revoked.Kind != policy.KindTimeout {
		t.Errorf("the cause was %v", cause)
	}
	p.Revoke(core.Token{Step: 9, Attempt: 1}, policy.KindCancelled)
	if got := next[core.TaskStopped](t, r); got.Step != 9 || got.Abandoned {
		t.Errorf("an unknown attempt was answered with %+v", got)
	}
	if len(r.news) != 0 {
		t.Errorf("also reported: %+v", <-r.news)
	}
}

func TestPoolSurvivesPanics(t *testing.T) {
	p, r := newTestPool(t, map[string]Executor{
		"panics": executorFunc(func(context.Context, core.Task, Alive) Result { panic("no such luck") }),
		"leaves": executorFunc(func(context.Context, core.Task, Alive) Result { runtime.Goexit(); return Result{} }),
		"quick":  quickPanic{}, "noop": Noop{},
	})
	for _, name := range []string{"panics", "quick"} {
		p.Dispatch(workertest.Task(name, ""))
		f := next[core.TaskEnded](t, r).Failure
		workertest.WantFailure(t, f, policy.KindError, "panic")
		if f.Message != "no such luck" || !strings.Contains(string(f.Details), "pool_test.go") {
			t.Errorf("%s: %s, details %s", name, f.Message, f.Details)
		}
	}
	p.Dispatch(workertest.Task("leaves", ""))
	workertest.WantFailure(t, next[core.TaskEnded](t, r).Failure, policy.KindError, "panic")
	p.Dispatch(workertest.Task("noop", ""))
	next[core.TaskEnded](t, r)
}

type quickPanic struct{ Noop }

func (quickPanic) Do(core.Task) Result { panic("no such luck") }

// TestPoolDoesInstantTasksOnTheSpot checks that tasks that take no time are done on the spot; nothing else is.
func TestPoolDoesInstantTasksOnTheSpot(t *testing.T) {
	p, _ := newTestPool(t, map[string]Executor{
		"noop": Noop{}, "fail": Fail{}, "quick": quickPanic{},
		"slow": executorFunc(func(context.Context, core.Task, Alive) Result { return Result{} }),
	})
	do := func(name, payload string) core.TaskEnded {
		t.Helper()
		task := workertest.Task(name, payload)
		end, ok := p.Do(task)
		if !ok || end.Step != task.Token.Step || end.Attempt != task.Token.Attempt {
			t.Fatalf("%s: %v, %+v", name, ok, end)
		}
		return end
	}
	if end := do("noop", `{"output":7}`); string(end.Output) != "7" || end.Failure != nil {
		t.Errorf("noop: %+v", end)
	}
	workertest.WantFailure(t, do("fail", `{"type":"Broken"}`).Failure, policy.KindFailed, "Broken")
	workertest.WantFailure(t, do("quick", "").Failure, policy.KindError, "panic")

	late := workertest.Task("noop", "")
	late.Deadline = policy.At(time.Now().Add(-time.Hour))
	large := workertest.Task("noop", `{"output":"`+strings.Repeat("x", instantPayload)+`"}`)
	for _, task := range []core.Task{workertest.Task("slow", ""), workertest.Task("unknown", ""), late, large} {
		if end, ok := p.Do(task); ok {
			t.Errorf("%s was done on the spot: %+v", task.Type, end)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Do(workertest.Task("noop", "")); ok {
		t.Error("a closed pool does tasks")
	}
}

func TestPoolDoesNotExecuteLateTasks(t *testing.T) {
	var executed atomic.Int32
	p, r := newTestPool(t, map[string]Executor{
		"count": executorFunc(func(context.Context, core.Task, Alive) Result { executed.Add(1); return Result{} }),
		"noop":  Noop{},
	})
	for _, name := range []string{"count", "noop"} {
		task := workertest.Task(name, "")
		task.Deadline = policy.At(time.Now().Add(-time.Hour))
		p.Dispatch(task)
		if f := next[core.TaskEnded](t, r).Failure; f == nil || f.Kind != policy.KindLost ||
			f.Type != core.TypeNotBegun {
			t.Errorf("%s: %v", name, f)
		}
		p.Revoke(task.Token, policy.KindTimeout)
		next[core.TaskStopped](t, r)
	}
	if executed.Load() != 0 || len(r.news) != 0 {
		t.Error("a task was executed after its deadline")
	}
}

func TestPoolTellsTheRemainingTime(t *testing.T) {
	p, r := newTestPool(t, map[string]Executor{
		"left": FuncExecutor(func(ctx context.Context, _ core.Task, _ Alive) ([]byte, error) {
			left, ok := Remaining(ctx)
			_, fixed := ctx.Deadline()
			return fmt.Appendf(nil, "%v %v %v", left > 50*time.Minute && left <= time.Hour, ok, fixed), nil
		}),
	})
	task := workertest.Task("left", "")
	p.Dispatch(task)
	if got := string(next[core.TaskEnded](t, r).Output); got != "false false false" {
		t.Errorf("without a deadline: %s", got)
	}
	task.Deadline = policy.At(time.Now().Add(time.Hour))
	p.Dispatch(task)
	if got := string(next[core.TaskEnded](t, r).Output); got != "true true false" {
		t.Errorf("with a deadline: %s", got)
	}
}

func TestPoolSlots(t *testing.T) {
	executors := Builtin(ExecConfig{})
	executors["mailer"] = FuncExecutor(nil)
	p := NewPool(PoolConfig{Executors: executors, Queues: []string{"", "mail"}, Slots: map[string]int{"mailer": 7}})
	for _, c := range []struct {
		queue, taskType string
		want            int
	}{
		{"", "exec", max(16, 4*runtime.GOMAXPROCS(0))},
		{"", "mailer", 7},
		{"mail", "mailer", 7},
		{"", "noop", -1},
		{"", "fail", -1},
		{"other", "mailer", 0},
		{"", "unknown", 0},
	} {
		if got := p.Slots(c.queue, c.taskType); got != c.want {
			t.Errorf("Slots(%q, %q) = %d, want %d", c.queue, c.taskType, got, c.want)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.Slots("", "noop") != 0 {
		t.Error("a closed pool takes work")
	}
}

func TestPoolWithoutTheType(t *testing.T) {
	p, r := newTestPool(t, map[string]Executor{})
	p.Dispatch(workertest.Task("sendMail", ""))
	f := next[core.TaskEnded](t, r).Failure
	workertest.WantFailure(t, f, policy.KindFailed, "invalid_payload")
	if !strings.Contains(f.Message, "sendMail") {
		t.Error(f.Message)
	}
}

func TestPoolClose(t *testing.T) {
	release := make(chan struct{})
	r := newReports()
	p := NewPool(PoolConfig{Reporter: r, Executors: map[string]Executor{
		"obedient": obedient,
		"slow": executorFunc(func(context.Context, core.Task, Alive) Result {
			<-release
			return Result{Output: []byte(`1`)}
		}),
	}})
	p.Dispatch(workertest.Task("obedient", ""))
	slow := workertest.Task("slow", "")
	slow.Token.Step = 5
	p.Dispatch(slow)

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Close(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("Close returned %v while an attempt still ran", err)
	}
	workertest.WantFailure(t, next[core.TaskEnded](t, r).Failure, policy.KindLost, "worker_closed")
	close(release)
	if end := next[core.TaskEnded](t, r); end.Failure != nil || string(end.Output) != "1" {
		t.Errorf("what completed all the same was reported as %+v", end)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	p.Dispatch(workertest.Task("obedient", ""))
	if len(r.news) != 0 {
		t.Error("a closed pool reports something")
	}
}

func TestFuncErrors(t *testing.T) {
	said := &policy.Failure{Kind: policy.KindFailed, Type: "declined", Code: 7, Message: "no"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("broken"), `{"kind":"error","message":"broken"}`},
		{fmt.Errorf("outer: %w", errors.New("broken")), `{"kind":"error","message":"outer: broken"}`},
		{fmt.Errorf("outer: %w", &ownError{}), `{"kind":"error","type":"worker.ownError","message":"outer: own"}`},
		{said, `{"kind":"failed","type":"declined","message":"no","code":7}`},
		{
			fmt.Errorf("card: %w", said),
			`{"kind":"failed","type":"declined","message":"card: failed declined (code 7): no","code":7}`,
		},
		{context.Canceled, `{"kind":"error","message":"context canceled"}`},
	} {
		if got := workertest.JSON(t, failureOf(t.Context(), c.err)); got != c.want {
			t.Errorf("%v became %s, want %s", c.err, got, c.want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrClosing)
	for _, err := range []error{ctx.Err(), fmt.Errorf("waiting: %w", context.Cause(ctx))} {
		if f := failureOf(ctx, err); f.Kind != policy.KindCancelled {
			t.Errorf("%v became %v", err, f)
		}
	}
}

type ownError struct{}

func (*ownError) Error() string { return "own" }

// counter is a Reporter that counts to a number.
type counter struct {
	left atomic.Int64
	done chan struct{}
}

func (c *counter) Report(core.RunID, core.Input) {
	if c.left.Add(-1) == 0 {
		close(c.done)
	}
}

func BenchmarkNoop(b *testing.B) {
	c := &counter{done: make(chan struct{})}
	c.left.Store(int64(b.N))
	p := NewPool(PoolConfig{Reporter: c})
	task := workertest.Task("noop", "")
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		task.Token.Attempt = i
		p.Dispatch(task)
	}
	<-c.done
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.StopTimer()
	if err := p.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkFunc(b *testing.B) {
	c := &counter{done: make(chan struct{})}
	c.left.Store(int64(b.N))
	p := NewPool(PoolConfig{Reporter: c, Executors: map[string]Executor{
		"f": FuncExecutor(func(context.Context, core.Task, Alive) ([]byte, error) { return nil, nil }),
	}})
	task := workertest.Task("f", "")
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		task.Token.Attempt = i
		p.Dispatch(task)
	}
	<-c.done
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.StopTimer()
	if err := p.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
