package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/internal/worker/web"
)

// workerFlags are the flags of pawl worker.
type workerFlags struct {
	queue, name string
	exec, http  string
	types       []string
	slots       int
	drain       string
}

func (a workerVerbs) workerCommand() *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:   "worker --queue QUEUE (--exec COMMAND | --http URL)",
		Short: "Execute the tasks of a queue that a server has",
		Args:  cobra.NoArgs,
		Long: `Takes the tasks of a queue from a server, executes each with a command or with an HTTP request, and
reports how it ended. Without --server it works through the process that holds the database.

--exec is a text for the shell. It gets the task's input on stdin, and PAWL_RUN_ID, PAWL_STEP, PAWL_ATTEMPT,
PAWL_TASK_TYPE, PAWL_IDEMPOTENCY_KEY and PAWL_DEADLINE_MS. What it may print is what an exec step may print: results,
heartbeats, failures. The task's output is the process's results, as an exec step has them. PAWL_FILES is a folder of
the attempt: the artifacts that the step takes are in it, and what the command adds to it is kept with the run.

--http is a URL to which the task's input is posted as JSON. It gets the headers Pawl-Run, Pawl-Step, Pawl-Task-Type,
Pawl-Attempt and Idempotency-Key. A status of 2xx is success, and its body the output.

SIGTERM and Ctrl-C: it takes no more tasks and waits for those that run, for --drain at most; a second one stops it at
once. What it leaves is made again by another worker.`,
		Example: "  pawl worker --server http://127.0.0.1:7295 --queue mail --exec ./send-mail.sh\n" +
			"  pawl worker --queue resize --slots 8 --http http://localhost:9000/resize",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("queue") {
				return usage(`say whose tasks to execute: --queue QUEUE; "" is the queue of steps without one`)
			}
			return a.work(cmd.Context(), &f)
		},
	}
	settings(cmd.Flags(), func(flags *pflag.FlagSet) {
		flags.StringVar(&f.queue, "queue", "", `task queue; "" is that of steps without one`)
		flags.StringSliceVar(&f.types, "type", nil, "only tasks of this type; repeat it for several (default all)")
		flags.StringVar(&f.exec, "exec", "", "command that executes a task, for the shell")
		flags.StringVar(&f.http, "http", "", "URL that executes a task")
		flags.IntVar(&f.slots, "slots", 4, "tasks that run at once")
		flags.StringVar(&f.name, "name", "", "name of this worker, for people (default host and process number)")
		amountVar(flags, &f.drain, "drain", "30s", "how long tasks may take to end when the worker stops")
	})
	return cmd
}

// work executes tasks until a signal comes.
func (a *app) work(ctx context.Context, f *workerFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	drain, err := parseDuration(f.drain)
	switch {
	case err != nil:
		return usage("--drain: %v", err)
	case f.slots < 1:
		return usage("--slots is %d: give at least 1", f.slots)
	}
	c, err := a.tasksOf(ctx)
	if err != nil {
		return err
	}
	executor := f.executor(httpapi.Files{Client: c})
	cfg := remote.WorkerConfig{
		Tasks: c, Queue: f.queue, Name: f.name, Slots: f.slots, DrainWithin: max(drain, time.Millisecond),
		Log: slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if len(f.types) == 0 {
		cfg.Other = executor
	} else {
		cfg.Executors = map[string]worker.Executor{}
		for _, t := range f.types {
			cfg.Executors[t] = executor
		}
	}
	signals := stopSignals()
	defer signal.Stop(signals)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-signals:
			signal.Stop(signals) // a second one ends the process at once
			stop()
		case <-ctx.Done():
		}
	}()
	if !a.structured() {
		a.say("executing tasks of the queue %q, %d at once; Ctrl-C stops it", f.queue, f.slots)
	}
	return remote.NewWorker(cfg).Run(ctx)
}

// tasksOf connects to the server, or to the process that holds the database.
func (a *app) tasksOf(ctx context.Context) (*httpapi.Client, error) {
	if a.server != "" {
		return a.connect()
	}
	p, err := a.where()
	if err != nil {
		return nil, err
	}
	if c := p.Join(ctx); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("no process holds %s: start pawl dev first, or name a server with --server", p.Name())
}

// check refuses flags that do not define an executor of the tasks.
func (f *workerFlags) check() error {
	switch {
	case (f.exec == "") == (f.http == ""):
		return usage("say what executes the tasks: one of --exec and --http")
	case f.exec != "":
		return nil
	}
	if u, err := url.Parse(f.http); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return usage("--http %q is not a URL; write it as http://localhost:9000/tasks", f.http)
	}
	return nil
}

// executor makes what executes the tasks.
func (f *workerFlags) executor(server api.TaskArtifacts) worker.Executor {
	if f.exec == "" {
		return requestTask{f.http, web.NewHTTP(web.HTTPConfig{})}
	}
	c := commandTask{shell: f.exec, exec: worker.NewExec(worker.ExecConfig{})}
	c.FileTask = remote.FileTask{API: server, Work: c.work}
	return c
}

// commandTask executes tasks with a command.
type commandTask struct {
	remote.FileTask

	shell string
	exec  *worker.Exec
}

// work runs the command.
func (c commandTask) work(ctx context.Context, t core.Task, folder string, alive worker.Alive) worker.Result {
	payload, err := json.Marshal(worker.ExecPayload{
		Shell: c.shell, Stdin: string(t.Payload) + "\n",
		Env:     map[string]string{"PAWL_TASK_TYPE": t.Type, "PAWL_FILES": folder},
		Results: "lines", // the command is written for Pawl: what it prints is its answer
	})
	if err != nil {
		return worker.BadPayload(t.Type, err)
	}
	t.Payload = payload
	return c.exec.Execute(ctx, &t, alive)
}

func (c commandTask) Close() error { return c.exec.Close() }

// requestTask executes tasks with a request.
type requestTask struct {
	url  string
	http *web.HTTP
}

func (r requestTask) Execute(ctx context.Context, t *core.Task, alive worker.Alive) worker.Result {
	payload, err := json.Marshal(web.HTTPPayload{
		Method: "POST", URL: r.url, JSON: t.Payload,
		Headers: map[string]string{
			"Pawl-Run": t.Token.Run.String(), "Pawl-Step": t.StepName, "Pawl-Task-Type": t.Type,
		},
	})
	if err != nil {
		return worker.BadPayload(t.Type, err)
	}
	request := *t
	request.Payload = payload
	res := r.http.Execute(ctx, &request, alive)
	if res.Failure != nil {
		return res
	}
	var out struct {
		JSON json.RawMessage `json:"json"`
		Body string          `json:"body"`
	}
	if err := json.Unmarshal(res.Output, &out); err != nil {
		return res
	}
	if res.Output = out.JSON; len(res.Output) == 0 {
		res.Output, _ = json.Marshal(out.Body) // a text can always be written
	}
	return res
}

func (r requestTask) Close() error { return r.http.Close() }
