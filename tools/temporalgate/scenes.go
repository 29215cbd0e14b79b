package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// queue is the task queue of the gate's worker.
const queue = "gate"

// scene is one thing that is tried. Its error describes what went otherwise than expected.
type scene struct {
	name string
	run  func(ctx context.Context, c client.Client, id string) error
}

var scenes = []scene{
	{"hello", gives(Hello, "Hello World")},
	{"fails-twice", gives(FailsTwice, "at last")},
	{"times-out", gives(TimesOut, "in time")},
	{"all-at-once", gives(AllAtOnce, "10")},
	{"local", gives(Local, "local")},
	{"new", gives(New, "3")},
	{"family", gives(Family, "all heard")},
	{"parent", gives(Parent, "undone")},
	{"other", gives(Other, "Hello World")},
	{"signal", signals},
	{"cancel", cancels},
	{"terminate", terminates},
	{"fails", failsForGood},
	{"run-timeout", runTimesOut},
	{"updates", updates},
	{"reset", resets},
}

func register(w worker.Worker) {
	for _, f := range []any{
		Hello, FailsTwice, TimesOut, AllAtOnce, Local, New, Signalled, Cancelled, Sleeps, Fails, Family,
		Kid, Parent, Other, Adds,
	} {
		w.RegisterWorkflow(f)
	}
	for _, f := range []any{Greet, Flaky, Slow, Beats, Never} {
		w.RegisterActivity(f)
	}
}

// gives returns a scene that expects a result.
func gives(wf any, want string) func(context.Context, client.Client, string) error {
	return func(ctx context.Context, c client.Client, id string) error {
		run, err := start(ctx, c, client.StartWorkflowOptions{
			ID: id, WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		}, wf, "World")
		if err != nil {
			return err
		}
		var got string
		if err := result(ctx, run, &got); err != nil || got != want {
			return fmt.Errorf("it gave %q, %w", got, err)
		}
		started := 0
		err = again(ctx, func() (err error) { started, err = startsOf(ctx, c, id); return err })
		if err != nil || started != 1 {
			return fmt.Errorf("it was started %d times, %w", started, err)
		}
		return nil
	}
}

// startsOf returns how many runs of a workflow id were started; those that continue others do not count.
func startsOf(ctx context.Context, c client.Client, id string) (n int, err error) {
	list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowId = %q", id),
	})
	if err != nil {
		return 0, err
	}
	for _, one := range list.Executions {
		if one.Status != enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
			n++
		}
	}
	return n, nil
}

// start starts a run, again where the server was away.
func start(
	ctx context.Context, c client.Client, o client.StartWorkflowOptions, wf any, args ...any,
) (client.WorkflowRun, error) {
	o.TaskQueue = queue
	for {
		run, err := c.ExecuteWorkflow(ctx, o, wf, args...)
		if err == nil || ctx.Err() != nil {
			return run, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// again does something until it succeeds, since the server may be away.
func again(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// sent sends something that ends a run, until the server has it. If the answer is lost, the run may have ended of what
// was sent before.
func sent(ctx context.Context, do func() error) error {
	return again(ctx, func() error {
		err := do()
		var ended *serviceerror.NotFound
		if errors.As(err, &ended) {
			return nil
		}
		return err
	})
}

// result waits for the result of a run, also while the server is away.
func result(ctx context.Context, run client.WorkflowRun, out any) error {
	for {
		err := run.Get(ctx, out)
		var ended *temporal.WorkflowExecutionError
		if err == nil || errors.As(err, &ended) || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

var usual = workflow.ActivityOptions{
	StartToCloseTimeout: 20 * time.Second, RetryPolicy: &temporal.RetryPolicy{InitialInterval: 10 * time.Millisecond},
}

// Greet returns a greeting.
func Greet(_ context.Context, name string) (string, error) { return "Hello " + name, nil }

// Flaky fails twice.
func Flaky(ctx context.Context) (string, error) {
	if activity.GetInfo(ctx).Attempt < 3 {
		return "", errors.New("not yet")
	}
	return "at last", nil
}

// Slow takes too long at its first attempt.
func Slow(ctx context.Context) (string, error) {
	if activity.GetInfo(ctx).Attempt == 1 {
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
		}
	}
	return "in time", nil // an attempt that a kill has interrupted is made again
}

// Beats works until it is cancelled.
func Beats(ctx context.Context) error {
	for {
		activity.RecordHeartbeat(ctx, "on it")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Never fails for good.
func Never(context.Context) error {
	return temporal.NewNonRetryableApplicationError("never", "Hopeless", nil)
}

// Hello calls an activity and sleeps.
func Hello(ctx workflow.Context, name string) (out string, err error) {
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, usual), Greet, name).Get(ctx, &out)
	if err != nil {
		return "", err
	}
	return out, workflow.Sleep(ctx, 30*time.Millisecond)
}

// FailsTwice calls an activity that fails twice.
func FailsTwice(ctx workflow.Context, _ string) (out string, err error) {
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, usual), Flaky).Get(ctx, &out)
	return out, err
}

// TimesOut calls an activity whose first attempt takes too long.
func TimesOut(ctx workflow.Context, _ string) (out string, err error) {
	o := usual
	o.StartToCloseTimeout = time.Second
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), Slow).Get(ctx, &out)
	return out, err
}

// AllAtOnce calls ten activities at once, beside a timer that it cancels.
func AllAtOnce(ctx workflow.Context, name string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, usual)
	timed, stop := workflow.WithCancel(ctx)
	timer := workflow.NewTimer(timed, time.Hour)
	calls := make([]workflow.Future, 10)
	for i := range calls {
		calls[i] = workflow.ExecuteActivity(ctx, Greet, name)
	}
	n := 0
	for _, call := range calls {
		if err := call.Get(ctx, nil); err != nil {
			return "", err
		}
		n++
	}
	stop()
	if err := timer.Get(ctx, nil); !temporal.IsCanceledError(err) {
		return "", fmt.Errorf("the timer: %w", err)
	}
	return fmt.Sprint(n), nil
}

// Local uses side effects, versions and a local activity.
func Local(ctx workflow.Context, _ string) (out string, err error) {
	var n int
	if err = workflow.SideEffect(ctx, func(workflow.Context) any { return 7 }).Get(&n); err != nil || n != 7 {
		return "", fmt.Errorf("the side effect gave %d, %w", n, err)
	}
	if v := workflow.GetVersion(ctx, "change", workflow.DefaultVersion, 2); v != 2 {
		return "", fmt.Errorf("version %d", v)
	}
	o := workflow.LocalActivityOptions{ScheduleToCloseTimeout: time.Minute}
	call := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, o), func() (string, error) {
		return "local", nil
	})
	if err = call.Get(ctx, &out); err != nil {
		return "", err
	}
	return out, workflow.Sleep(ctx, 10*time.Millisecond)
}

// New goes on as a new run until its argument is long enough.
func New(ctx workflow.Context, arg string) (string, error) {
	if len(arg) < len("World")+3 {
		return "", workflow.NewContinueAsNewError(ctx, New, arg+"x")
	}
	return fmt.Sprint(len(arg) - len("World")), nil
}

// Signalled waits for an event.
func Signalled(ctx workflow.Context) (out string, err error) {
	workflow.GetSignalChannel(ctx, "go").Receive(ctx, &out)
	return out, workflow.Sleep(ctx, 10*time.Millisecond)
}

func signals(ctx context.Context, c client.Client, id string) error {
	run, err := start(ctx, c, client.StartWorkflowOptions{ID: id}, Signalled)
	if err != nil {
		return err
	}
	err = sent(ctx, func() error { return c.SignalWorkflow(ctx, id, run.GetRunID(), "go", "signalled") })
	if err != nil {
		return err
	}
	var got string
	if err := result(ctx, run, &got); err != nil || got != "signalled" {
		return fmt.Errorf("it gave %q, %w", got, err)
	}
	return nil
}

// Cancelled works until it is cancelled, and says goodbye.
func Cancelled(ctx workflow.Context) (string, error) {
	o := usual
	o.HeartbeatTimeout, o.StartToCloseTimeout, o.WaitForCancellation = 30*time.Second, time.Hour, true
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), Beats).Get(ctx, nil)
	// No worker hears of an attempt if the server is killed as it gives that out. Such an attempt is given up once its
	// heartbeats are missed, and none follows, because the activity is to stop.
	var unheard *temporal.TimeoutError
	if !temporal.IsCanceledError(err) && !errors.As(err, &unheard) {
		return "", fmt.Errorf("the activity: %w", err)
	}
	clean, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	var out string
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(clean, usual), Greet, "bye").Get(clean, &out)
	if err != nil {
		return "", err
	}
	return "", temporal.NewCanceledError(out)
}

func cancels(ctx context.Context, c client.Client, id string) error {
	run, err := start(ctx, c, client.StartWorkflowOptions{ID: id}, Cancelled)
	if err != nil {
		return err
	}
	time.Sleep(200 * time.Millisecond)
	if err := sent(ctx, func() error { return c.CancelWorkflow(ctx, id, run.GetRunID()) }); err != nil {
		return err
	}
	err = result(ctx, run, nil)
	var cancelled *temporal.CanceledError
	var details string
	if !errors.As(err, &cancelled) || cancelled.Details(&details) != nil || details != "Hello bye" {
		return fmt.Errorf("it ended with %q, %w", details, err)
	}
	return nil
}

// Sleeps sleeps for an hour.
func Sleeps(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Hour) }

func terminates(ctx context.Context, c client.Client, id string) error {
	run, err := start(ctx, c, client.StartWorkflowOptions{ID: id}, Sleeps)
	if err != nil {
		return err
	}
	if err := sent(ctx, func() error { return c.TerminateWorkflow(ctx, id, run.GetRunID(), "enough") }); err != nil {
		return err
	}
	var terminated *temporal.TerminatedError
	if err := result(ctx, run, nil); !errors.As(err, &terminated) {
		return fmt.Errorf("it ended with %w", err)
	}
	return nil
}

func runTimesOut(ctx context.Context, c client.Client, id string) error {
	run, err := start(ctx, c, client.StartWorkflowOptions{ID: id, WorkflowRunTimeout: time.Second}, Sleeps)
	if err != nil {
		return err
	}
	var timedOut *temporal.TimeoutError
	if err := result(ctx, run, nil); !errors.As(err, &timedOut) {
		return fmt.Errorf("it ended with %w", err)
	}
	return nil
}

// Fails calls an activity that fails for good.
func Fails(ctx workflow.Context) error {
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, usual), Never).Get(ctx, nil)
}

func failsForGood(ctx context.Context, c client.Client, id string) error {
	run, err := start(ctx, c, client.StartWorkflowOptions{ID: id}, Fails)
	if err != nil {
		return err
	}
	err = result(ctx, run, nil)
	var failed *temporal.ActivityError
	var why *temporal.ApplicationError
	if !errors.As(err, &failed) || !errors.As(err, &why) || why.Type() != "Hopeless" || !why.NonRetryable() {
		return fmt.Errorf("it ended with %w", err)
	}
	return nil
}
