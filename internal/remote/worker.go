package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// WorkerConfig configures a worker. Tasks, Slots, and one of Executors and Other are needed.
type WorkerConfig struct {
	Tasks api.Tasks // the tasks of the server
	Queue string
	// Name is recorded with each attempt, for people. Default: the host's name and the process's number.
	Name string
	// Executors are the executors by task type. Other executes the other types; without it the worker does not get
	// them.
	Executors map[string]worker.Executor
	Other     worker.Executor
	Slots     int // tasks that run at once
	// DrainWithin is how long tasks that run may take to end when the worker stops. Then they are told to stop. Default
	// 30s.
	DrainWithin time.Duration
	Log         *slog.Logger // default: nothing is logged
}

const (
	pollWait = 30 * time.Second
	// lookEvery is how often a worker asks whether its attempts go on, of which it has nothing to report.
	lookEvery = 2 * time.Second

	firstRetry = 100 * time.Millisecond // when a server is asked again that does not answer
	lastRetry  = 5 * time.Second

	answerWithin = 30 * time.Second // a request; a poll may wait besides

	stopWithin  = 15 * time.Second // the time for tasks that were told to stop because the worker stops
	flushWithin = 10 * time.Second // the time for the last reports
)

// Worker executes the tasks of a queue that a server has.
type Worker struct {
	cfg   WorkerConfig
	pool  *worker.Pool
	out   *outbox
	types []string

	mu    sync.Mutex
	live  map[core.Token]string // the running tasks, with the server's tokens for them
	freed chan struct{}         // receives a value when a task has ended
}

// NewWorker returns a worker that does nothing yet.
func NewWorker(cfg WorkerConfig) *Worker {
	if cfg.Name == "" {
		host, _ := os.Hostname()
		cfg.Name = fmt.Sprintf("%s pid %d", cmp.Or(host, "worker"), os.Getpid())
	}
	if cfg.DrainWithin <= 0 {
		cfg.DrainWithin = 30 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	w := &Worker{cfg: cfg, live: map[core.Token]string{}, freed: make(chan struct{}, 1)}
	if cfg.Other == nil {
		w.types = slices.Sorted(maps.Keys(cfg.Executors))
	}
	w.cfg.Tasks = timed{cfg.Tasks}
	w.out = newOutbox(w.cfg.Tasks, w.answered, cfg.Log)
	w.pool = worker.NewPool(worker.PoolConfig{
		Executors: cfg.Executors, Other: cfg.Other, Reporter: w, Log: cfg.Log,
	})
	return w
}

// Run takes tasks and executes them until ctx is done. Then it takes no more and waits for the running tasks, at most
// DrainWithin; those that still run are told to stop, and made again by another worker. It returns an error if the
// server refuses the worker, or if work did not stop.
func (w *Worker) Run(ctx context.Context) error {
	reporting, stopReporting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopReporting()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		w.out.run(reporting)
	}()
	polling, stopPolling := context.WithCancel(ctx)
	go w.look(reporting)
	err := w.poll(polling)
	stopPolling()
	w.waitForTasks()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if stopErr := w.pool.Close(closing); err == nil {
		err = stopErr
	}
	flushed := time.AfterFunc(flushWithin, stopReporting)
	defer flushed.Stop()
	w.out.finish()
	<-sent
	return err
}

// poll takes tasks while there is room, until ctx is done or the server refuses.
func (w *Worker) poll(ctx context.Context) error {
	retry := time.Duration(0)
	for ctx.Err() == nil {
		room := w.room()
		if room == 0 {
			select {
			case <-w.freed:
			case <-ctx.Done():
			}
			continue
		}
		tasks, err := w.cfg.Tasks.Poll(ctx, api.PollRequest{
			Queue: w.cfg.Queue, Types: w.types, Worker: w.cfg.Name, Max: min(room, maxTasks),
			Wait: api.Duration(pollWait), Confirm: true,
		})
		switch {
		case err == nil:
			if retry > 0 {
				w.cfg.Log.Info("the server answers again")
			}
			retry = 0
			w.begin(ctx, tasks)
		case ctx.Err() != nil:
		case !temporary(err):
			return err
		default:
			if retry == 0 {
				w.cfg.Log.Warn("the server hands out no tasks at present; asking again", "error", err)
			}
			retry = longer(retry)
			pause(ctx, retry)
		}
	}
	return nil
}

// timed gives every request a time limit: a connection may break without a word.
type timed struct{ tasks api.Tasks }

func (t timed) Poll(ctx context.Context, r api.PollRequest) ([]api.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Wait.Std()+answerWithin)
	defer cancel()
	return t.tasks.Poll(ctx, r)
}

func (t timed) Report(ctx context.Context, reports []api.TaskReport) ([]api.TaskAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return t.tasks.Report(ctx, reports)
}

// temporary reports whether a poll may succeed later.
func temporary(err error) bool {
	switch api.CodeOf(err) {
	case api.CodeInvalid, api.CodeNotFound, api.CodeReadOnly, api.CodeTooLarge, api.CodeNoToken, api.CodeForbidden:
		return false
	default:
		return true
	}
}

// longer returns how long to wait after a request has failed again, before which it was d.
func longer(d time.Duration) time.Duration { return min(max(2*d, firstRetry), lastRetry) }

// part returns a part of d that differs from worker to worker.
func part(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// pause waits for a part of d.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(part(d))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// room returns how many more tasks may run.
func (w *Worker) room() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cfg.Slots - len(w.live)
}

// begin tells the server that it has the tasks, and executes those that the server has not given to others meanwhile.
// If it does not learn that it may execute one, it reports that the attempt has not begun: the server may have noted
// that it has, and would wait for its end.
func (w *Worker) begin(ctx context.Context, tasks []api.Task) {
	if len(tasks) == 0 {
		return
	}
	reports := make([]api.TaskReport, len(tasks))
	for i := range tasks {
		reports[i] = api.TaskReport{Task: tasks[i].Task, Kind: api.TaskStart}
	}
	answers, err := w.cfg.Tasks.Report(ctx, reports)
	if err != nil {
		answers = make([]api.TaskAnswer, len(tasks))
		for i := range answers {
			answers[i].Error = &api.Error{Code: api.CodeUncertain, Message: "the server did not answer", Err: err}
		}
	}
	for i := range tasks {
		t, e := &tasks[i], answers[i].Error
		log := w.cfg.Log.With("run", t.Run, "step", t.Step, "attempt", t.Attempt)
		switch {
		case answers[i].Stop != "":
			w.out.put(api.TaskReport{Task: t.Task, Kind: api.TaskStopped})
		case e == nil:
			w.dispatch(t)
		case isOver(e.Code):
			log.Info("a task was not begun: it has gone to another worker, or has ended")
		default:
			log.Warn("a task was not begun; giving it back", "error", cmp.Or[error](err, e))
			w.out.put(api.TaskReport{
				Task: t.Task, Kind: api.TaskFail, Failure: notBegun("its worker did not learn that it may begin"),
			})
		}
	}
}

// dispatch executes a task. The pool gets the remaining time of its clocks, as lengths.
func (w *Worker) dispatch(t *api.Task) {
	tok, secret, err := readToken(t.Task)
	if err != nil {
		w.out.put(api.TaskReport{Task: t.Task, Kind: api.TaskFail, Failure: &policy.Failure{
			Kind: policy.KindFailed, Type: "unreadable_task", Message: err.Error(),
		}})
		return
	}
	w.mu.Lock()
	w.live[tok] = t.Task
	w.mu.Unlock()
	headers, err := headersOf(t)
	if err != nil {
		w.cfg.Log.Warn("the headers of a run are ignored", "run", t.Run, "error", err)
	}
	task := core.Task{
		Token: tok, StepName: t.Step, Workflow: t.Workflow, Type: t.Type, Queue: t.Queue, Payload: t.Input,
		Count: t.Counted, Details: t.Details, Headers: headers, Secret: secret,
		Heartbeat: t.Left.Heartbeat.Std().Microseconds(), Inactivity: t.Left.Inactivity.Std().Microseconds(),
	}
	w.pool.DispatchFor(task, t.Left.Deadline.Std())
}

// headersOf returns the headers of a task's run. The calls and runs of the attempt belong to the span of the attempt,
// if it has one, and not to that of the caller that started the run.
func headersOf(t *api.Task) (core.Headers, error) {
	if t.Trace != "" {
		all := maps.Clone(t.Headers)
		if all == nil {
			all = map[string]string{}
		}
		all["traceparent"] = t.Trace
		if headers, err := core.MakeHeaders(all); err == nil { // else they are too long with it
			return headers, nil
		}
	}
	return core.MakeHeaders(t.Headers)
}

func (w *Worker) Report(run core.RunID, in core.Input) {
	var r api.TaskReport
	tok, over := core.Token{Run: run}, true
	switch in := in.(type) {
	case core.TaskEnded:
		tok.Step, tok.Attempt = in.Step, in.Attempt
		r = api.TaskReport{Kind: api.TaskComplete, Output: in.Output, Details: in.Details}
		if in.Failure != nil {
			r.Kind, r.Failure = api.TaskFail, in.Failure
		}
	case core.TaskStopped:
		tok.Step, tok.Attempt = in.Step, in.Attempt
		r = api.TaskReport{Kind: api.TaskStopped, Abandoned: in.Abandoned, Killed: in.Killed}
	case core.Beat:
		tok.Step, tok.Attempt, over = in.Step, in.Attempt, false
		r = api.TaskReport{Kind: api.TaskHeartbeat, Details: json.RawMessage(in.Details)}
		if in.Output {
			r.Kind = api.TaskOutput
		}
	default:
		return
	}
	w.mu.Lock()
	token, known := w.live[tok]
	if over {
		delete(w.live, tok)
	}
	w.mu.Unlock()
	if !known {
		return
	}
	r.Task = token
	w.out.put(r)
	if over {
		select {
		case w.freed <- struct{}{}:
		default:
		}
	}
}

// answered takes the server's answer to a report. Work is stopped only if its attempt is over.
func (w *Worker) answered(r *api.TaskReport, a *api.TaskAnswer) {
	var why policy.Kind
	switch {
	case a.Stop != "":
		if why.UnmarshalText([]byte(a.Stop)) != nil {
			why = policy.KindCancelled
		}
	case a.Error == nil || !isOver(a.Error.Code):
		return
	case r.Kind == api.TaskComplete || r.Kind == api.TaskFail || r.Kind == api.TaskStopped:
		w.cfg.Log.Warn("the server has refused a report", "report", r.Kind, "error", a.Error)
		return
	default:
		why = policy.KindLost
	}
	if tok, _, err := readToken(r.Task); err == nil {
		w.pool.Revoke(tok, why)
	}
}

// look asks now and then whether the tasks go on: otherwise a function without signs of life would never learn that it
// should stop.
func (w *Worker) look(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		w.mu.Lock()
		reports := make([]api.TaskReport, 0, len(w.live))
		for _, token := range w.live {
			reports = append(reports, api.TaskReport{Task: token, Kind: api.TaskLook})
		}
		w.mu.Unlock()
		for chunk := range slices.Chunk(reports, maxTasks) {
			answers, err := w.cfg.Tasks.Report(ctx, chunk)
			if err != nil {
				break // the outbox finds out what is wrong
			}
			for i := range answers {
				w.answered(&chunk[i], &answers[i])
			}
		}
	}
}

// waitForTasks waits until no task runs, at most DrainWithin.
func (w *Worker) waitForTasks() {
	within := time.NewTimer(w.cfg.DrainWithin)
	defer within.Stop()
	for w.room() < w.cfg.Slots {
		select {
		case <-w.freed:
		case <-within.C:
			return
		}
	}
}
