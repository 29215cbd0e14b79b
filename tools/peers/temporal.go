package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"
)

// temporalEngine is a server in a separate process, Temporal's or Pawl's, and workers of Temporal's SDK in this one.
type temporalEngine struct {
	cmd       *exec.Cmd
	said      strings.Builder
	namespace string
	client    client.Client
}

func openTemporalFile(ctx context.Context, dir, _ string) (engine, error) {
	return openTemporal(ctx, dir, temporalServer, "-dir", dir)
}

func openTemporalServer(ctx context.Context, dir, postgres string) (engine, error) {
	return openTemporal(ctx, dir, temporalServer, "-postgres", postgres)
}

const temporalNamespace, temporalQueue = "peers", "steps"

// temporalWorkers is how many workers there are. One asks for at most 1,000 workflow tasks a second: timers that are
// due at that rate would wait for it, and for ever longer after each pause of the machine.
const temporalWorkers = 2

// temporalProgram is the server as it is built in this folder.
const temporalProgram = "temporal-server"

// buildTemporal builds the server, which takes minutes the first time.
func buildTemporal(ctx context.Context) error {
	build := exec.CommandContext(ctx, "go", "build", "-C", "temporal", "-o", filepath.Join("..", temporalProgram), ".")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("the server cannot be built: %w: %s", err, bytes.TrimSpace(said))
	}
	return nil
}

// sdkServer is a server for workers of Temporal's SDK.
type sdkServer struct {
	file, namespace string
	at              func(port int) []string // the arguments that say where it listens
}

var temporalServer = sdkServer{temporalProgram, temporalNamespace, func(port int) []string {
	return []string{"-port", strconv.Itoa(port)}
}}

func openTemporal(ctx context.Context, dir string, p sdkServer, args ...string) (engine, error) {
	file, err := filepath.Abs(p.file)
	if err != nil {
		return nil, err
	}
	ports, err := samePorts(dir, func() ([]int, error) {
		port, err := freeRange(ctx, 8)
		return []int{port}, err
	})
	if err != nil {
		return nil, err
	}
	port := ports[0]
	e := &temporalEngine{cmd: exec.Command(file, append(args, p.at(port)...)...), namespace: p.namespace}
	e.cmd.Stdout, e.cmd.Stderr = &e.said, &e.said
	if err := e.cmd.Start(); err != nil {
		return nil, err
	}
	if err := e.connect(ctx, "127.0.0.1:"+strconv.Itoa(port)); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; the server says: %s", err, lastLine(e.said.String())), e.close())
	}
	return e, nil
}

// freeRange returns the first of some ports in a row on which no process listens. They are below those that a system
// gives to connections, because the server opens many to its database before it listens on the last one.
func freeRange(ctx context.Context, n int) (int, error) {
	for first := 17_000; first < 30_000; first += n {
		if allFree(ctx, first, n) {
			return first, nil
		}
	}
	return 0, fmt.Errorf("there are no %d free ports in a row", n)
}

// connect registers the namespace as soon as the server answers, and starts the worker.
func (e *temporalEngine) connect(ctx context.Context, address string) error {
	options := client.Options{
		HostPort: address, Namespace: e.namespace,
		Logger: sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	}
	err := patiently(ctx, func(ctx context.Context) error {
		spaces, err := client.NewNamespaceClient(options)
		if err != nil {
			return err
		}
		defer spaces.Close()
		err = spaces.Register(ctx, &workflowservice.RegisterNamespaceRequest{
			Namespace: e.namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
		})
		var there *serviceerror.NamespaceAlreadyExists
		if errors.As(err, &there) { // an earlier try whose answer came too late
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("the namespace: %w", err)
	}
	if e.client, err = client.DialContext(ctx, options); err != nil {
		return err
	}
	for range temporalWorkers {
		w := worker.New(e.client, temporalQueue, worker.Options{
			MaxConcurrentWorkflowTaskPollers: 8, MaxConcurrentActivityTaskPollers: 8,
			MaxConcurrentActivityExecutionSize: 1000, MaxConcurrentWorkflowTaskExecutionSize: 1000,
		})
		w.RegisterWorkflowWithOptions(temporalWork, workflow.RegisterOptions{Name: "work"})
		w.RegisterActivityWithOptions(temporalStep, activity.RegisterOptions{Name: "step"})
		if err := w.Start(); err != nil {
			return err
		}
	}
	// A namespace is usable some seconds after it was registered.
	return patiently(ctx, func(ctx context.Context) error { return e.once(ctx, work{steps: 1}) })
}

// patiently repeats what fails while a server starts.
func patiently(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var failed error
	for {
		try, end := context.WithTimeout(ctx, 10*time.Second)
		err := do(try)
		end()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(err, failed)
		}
		failed = err
		rest(ctx, 100*time.Millisecond)
	}
}

func temporalWork(ctx workflow.Context, j job) (int, error) {
	if j.Due != 0 {
		if err := workflow.Sleep(ctx, time.UnixMicro(j.Due).Sub(workflow.Now(ctx))); err != nil {
			return 0, err
		}
		awake(j.Due) // a replay that comes by again is not counted
		return 0, nil
	}
	// An attempt that the server hands out while too much is going on may not reach the worker. It ends with its limit,
	// and is one of those that count: so attempts are not bounded, and their limit is short.
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: pause, BackoffCoefficient: 1},
	})
	for i := range j.Steps {
		if err := workflow.ExecuteActivity(ctx, "step", j, i).Get(ctx, nil); err != nil {
			return 0, err
		}
	}
	return j.Steps, nil
}

func temporalStep(ctx context.Context, j job, step int) (int, error) {
	if int(activity.GetInfo(ctx).Attempt) <= j.Fails {
		return 0, errFails
	}
	return step, j.did(step)
}

func (e *temporalEngine) once(ctx context.Context, w work) error {
	run, err := e.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: temporalQueue}, "work",
		job{Steps: w.steps, Fails: w.fails})
	if err == nil {
		err = run.Get(ctx, nil)
	}
	return err
}

func (e *temporalEngine) start(ctx context.Context, j job) error {
	_, err := e.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: temporalQueue}, "work", j)
	return err
}

func (e *temporalEngine) process() int { return e.cmd.Process.Pid }

// close kills the server at once: its data is no longer needed.
func (e *temporalEngine) close() error {
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait() // killed
	return nil
}
