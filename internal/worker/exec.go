package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/caller"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/reach"
	"github.com/pawl-dev/pawl/internal/secret"
	"github.com/pawl-dev/pawl/policy"
)

// ExecConfig configures an Exec. Zero values are useful.
type ExecConfig struct {
	// LogDir is the folder for the logs of attempts: LogDir/<run>/<step>.<attempt>.log. Default: no logs.
	LogDir string

	// LogLimit bounds the log of one attempt, in bytes. Of longer output the first part and the end are kept. Defaults
	// to 10 MiB.
	LogLimit int64

	// Owner marks the processes, in the environment variable PAWL_OWNER, to which each Exec adds a part of its own.
	// KillLeftovers uses the mark to find processes
	// that outlive a killed engine. It should be unique to the engine's database. Default: no mark.
	Owner string

	// Secrets finds what payloads refer to, and takes it out of what processes write. Default: there are none.
	Secrets *secret.Store

	// Callers finds for whom an attempt is made: it gets that one's environment, secrets and limits. Default: all are
	// made for this process.
	Callers *Callers

	// Trace returns the W3C traceparent of an attempt, for what it starts. Default: that of the run's headers.
	Trace func(core.Task) string

	// Grace is used for payloads that do not set one. Defaults to 5s.
	Grace time.Duration

	// Containers is the program for containers: docker, podman, or the path of one that takes their arguments. Defaults
	// to docker, or else podman.
	Containers string

	// Artifacts keeps files of attempts. Default: none are kept.
	Artifacts *artifact.Store

	// Reach decides which addresses the requests of steps may go to. nil: all.
	Reach *reach.Policy

	// Log receives messages about the worker itself. Defaults to discarding them.
	Log *slog.Logger
}

// ExecPayload is the payload of an exec task.
type ExecPayload struct {
	// Command is a program and its arguments. A program name without a slash is looked up in the process's PATH.
	Command []string `json:"command,omitempty"`
	// Shell is a script, in place of Command.
	Shell string `json:"shell,omitempty"`
	// Interpreter is a program with arguments, to which the script is added as the last one. Default: /bin/sh, which
	// ends with the first command that fails, also within a pipe if it knows pipefail.
	Interpreter []string `json:"interpreter,omitempty"`
	// Results is "lines" if lines of stdout may be results, heartbeats and failures. Default: they are not.
	Results string `json:"results,omitempty"`
	// Env is added to the environment.
	Env map[string]string `json:"env,omitempty"`
	// Defaults are variables that the process gets where its environment does not have them.
	Defaults map[string]string `json:"defaults,omitempty"`
	// Dotenv are files with such variables. They come before Defaults.
	Dotenv []string `json:"dotenv,omitempty"`
	// Dir is the process's working folder. Default: that of the worker. In a container it counts from /workspace.
	Dir string `json:"dir,omitempty"`
	// Stdin is the text that the process can read. Default: none.
	Stdin string `json:"stdin,omitempty"`
	// Grace is the time between SIGTERM and SIGKILL, in milliseconds.
	Grace *int64 `json:"grace,omitempty"`
	// Container is the container that the process runs in. Default: none. Where there is neither a command nor a
	// script, the image's own program runs.
	Container *ContainerPayload `json:"container,omitempty"`
	// Artifacts are patterns of files that are kept, below Dir.
	Artifacts []string `json:"artifacts,omitempty"`
	// Tests are patterns of JUnit files, below Dir, whose results are added to the output.
	Tests []string `json:"tests,omitempty"`
	// Take are artifacts of other steps, or lists of such: they are put below Dir before the process starts.
	Take []json.RawMessage `json:"take,omitempty"`
	// Placeholders are what the texts refer to instead of saying it.
	Placeholders *secret.Placeholders `json:"placeholders,omitempty"`

	stopping *stopping
	by       *caller.Caller // the one that the attempt is made for; nil: this process
}

// Exec executes processes: one process group for each attempt.
//
// # What a process gets
//
// The environment variables PAWL_RUN_ID, PAWL_STEP, PAWL_ATTEMPT, PAWL_IDEMPOTENCY_KEY (the same for all attempts of
// the step), PAWL_DEADLINE_MS (the time until the attempt's deadline; not set without a deadline), PAWL_LAST_HEARTBEAT
// (the details of the previous attempt's last heartbeat; not set without details), or of more than 64 KiB
// PAWL_LAST_HEARTBEAT_FILE (a file that has them), PAWL_OUTPUT (a file for results, see below) and PAWL_OWNER.
//
// # What a process reports
//
// Whatever arrives on stdout or stderr is a sign of life. The attempt's output has the keys exitCode, stdout and
// stderr (the last 4 KiB of each as text, where U+FFFD replaces everything that is not UTF-8), stdoutBytes,
// stderrBytes, and log, the path of the whole log. A process can add results, which replace these keys except exitCode,
// in the file $PAWL_OUTPUT, which it makes: lines name=value, or name<<END, lines, and END for a text of several lines,
// or a line that is a JSON object, for its keys.
//
// A line {"pawl": {"failed": true, "type": "…", "message": "…", "code": 7, "retryAfter": "5s", "nonRetryable": true}}
// in that file fails the attempt, whatever the exit code. The last such line counts. Every field except failed is
// optional. The kind of the failure is failed, or error if there is a retryAfter; "kind" (error, failed or timeout)
// overrides it. Without failed the line only adds to the failure of a process that exits with a code other than 0.
//
// What a process prints is nothing but text, since it may print what others wrote. Only where the payload says
// "results": "lines", lines of stdout count as well: the last one that is JSON is a result (an object's keys, or any
// other value under the key value), the line above is a failure, and {"pawl": {"heartbeat": DETAILS}} is a heartbeat,
// whose details the next attempt gets.
//
// # How an attempt ends
//
// Exit code 0 is success. Any other code is a failure of kind error and type exit. A process that is killed by a signal
// fails with type signal and the code 128 + the signal's number. A command that does not exist or is not executable
// fails with kind failed and type not_found.
//
// To stop an attempt, its process group gets SIGTERM, and SIGKILL after the grace. After another grace (at least a
// second) it is abandoned. On Linux the same is done to processes that left the group and still have the attempt's
// environment. When the process ends by itself, the rest of its group has half a second to finish writing, and is then
// killed. A program that must outlive the attempt has to leave the group and close stdout and stderr
// (setsid program >/dev/null 2>&1 &). To outlive the engine's recovery too, it has to remove PAWL_OWNER from its
// environment.
//
// A process and the rest of its group die with the worker, however the worker ends: a shell beside the worker, the
// guard, sees to that. On Linux the process itself dies without the guard's help, and the guard also ends those that
// left the group and kept PAWL_OWNER. What is left nevertheless, because the guard was killed too or there is no
// /bin/sh, KillLeftovers ends. That works on Linux only. On Windows there is no guard: processes go on to their end.
type Exec struct {
	cfg     ExecConfig
	results resultFolder  // the results of attempts without logs
	pause   time.Duration // the pause before an attempt is given back for which something is short
	guard   *processGuard

	programs   programs
	inherited  inherited
	containers *containers
}

// The places of results.
const (
	resultsInFile  = "file"
	resultsInLines = "lines"
)

// Bounds that are the same for every step.
const (
	defaultGrace    = 5 * time.Second
	defaultLogLimit = 10 << 20
	minKillWait     = time.Second            // the time for a killed process to disappear
	groupWait       = 500 * time.Millisecond // the time for the rest of the group to finish writing
)

// NewExec returns an executor of exec tasks.
func NewExec(cfg ExecConfig) *Exec {
	if cfg.LogLimit <= 0 {
		cfg.LogLimit = defaultLogLimit
	}
	if cfg.Grace <= 0 {
		cfg.Grace = defaultGrace
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Exec{
		cfg: cfg, guard: newGuard(cfg.Owner, cfg.Log), pause: ShortagePause, containers: newContainers(cfg),
	}
}

// Close removes the folder of the files $PAWL_OUTPUT.
func (e *Exec) Close() error { return e.results.remove() }

// Execute runs the process.
func (e *Exec) Execute(ctx context.Context, t *core.Task, alive Alive) Result {
	var p ExecPayload
	if err := DecodePayload(t.Payload, &p); err != nil {
		return BadPayload("exec", err)
	}
	if err := p.check(); err != nil {
		return BadPayload("exec", err)
	}
	if ctx.Err() != nil {
		return Result{Failure: Stopped(ctx)}
	}
	by := e.cfg.Callers.For(t)
	secrets := e.cfg.SecretsOf(t)
	stopping := &stopping{ctx: ctx}
	MayAbandon(ctx, &Abandon{Grace: max(e.grace(&p), minKillWait), Wait: stopping.wait}, nil)
	if err := p.readDotenv(secrets); err != nil {
		return Result{Failure: &policy.Failure{Kind: policy.KindFailed, Type: "not_found", Message: err.Error()}}
	}
	if err := p.fill(ctx, secrets); err != nil {
		return Result{Failure: NoSecret(ctx, err)}
	}
	p.by = by
	p.Dir = by.Path(p.Dir, p.Container != nil)
	redactor := secrets.Redactor()
	p.stopping = stopping
	res := e.run(ctx, *t, &p, redacting(alive, redactor), redactor)
	Redact(redactor, &res)
	return res
}

// readDotenv adds the variables of files to those that the process gets by default.
func (p *ExecPayload) readDotenv(secrets *secret.Store) error {
	values, err := secrets.ReadFiles(p.Dotenv)
	if err != nil || len(values) == 0 {
		return err
	}
	for name, value := range p.Defaults {
		if _, given := values[name]; !given {
			values[name] = value
		}
	}
	p.Defaults = values
	return nil
}

// fill puts values in the place of what the payload refers to.
func (p *ExecPayload) fill(ctx context.Context, store *secret.Store) error {
	texts := append(p.Container.texts(), &p.Dir, &p.Stdin)
	for i := range p.Command {
		texts = append(texts, &p.Command[i])
	}
	if err := p.Placeholders.Fill(ctx, store, texts...); err != nil {
		return err
	}
	return p.Placeholders.FillMap(ctx, store, p.Env)
}

// run runs the process of a payload that is complete.
func (e *Exec) run(ctx context.Context, t core.Task, p *ExecPayload, alive Alive, redactor *secret.Redactor) Result {
	results, err := e.resultFile(t.Token, t.StepName, redactor)
	if err != nil {
		return e.notStarted(ctx, err, &policy.Failure{
			Kind: policy.KindError, Type: "start", Message: fmt.Sprintf("no file for $PAWL_OUTPUT: %v", err),
		})
	}
	if err := results.keep(t.Details); err != nil {
		return e.notStarted(ctx, err, &policy.Failure{
			Kind: policy.KindError, Type: "start", Message: fmt.Sprintf("no file for the last heartbeat: %v", err),
		})
	}
	defer results.drop()
	if failure := e.take(ctx, p); failure != nil {
		return Result{Failure: failure}
	}
	cmd, box, failure := e.prepared(ctx, t, p, results)
	if failure != nil {
		return Result{Failure: failure}
	}
	defer box.remove()

	out := newCapture(e.openLog(t), alive, redactor)
	out.lines = p.Results == resultsInLines
	defer e.closeLog(t, out)
	streams, err := out.connect(cmd, p.Stdin)
	if err != nil {
		return e.notStarted(ctx, err, startFailure(cmd, err))
	}
	defer streams.close()

	ended, ok := p.stopping.begin()
	if !ok {
		streams.started(false)
		return Result{Failure: Stopped(ctx)}
	}
	defer ended()
	line := e.guard.begin()
	proc, err := startProcess(cmd)
	streams.started(err == nil)
	if err != nil {
		e.guard.end(line)
		return e.notStarted(ctx, err, startFailure(cmd, err))
	}
	e.guard.started(line, proc.id)

	gone := e.await(ctx, proc, streams, e.grace(p), marksOf(e.guard.mark, t), box)
	e.guard.end(line)
	ended()
	streams.end()
	if proc.rest {
		out.log.write(StreamPawl, []byte(restKilled))
	}
	if proc.stopped {
		results.remove()
		return Result{Failure: Stopped(ctx), Abandoned: !gone, Killed: proc.killed}
	}
	res := conclude(proc, out, results, box)
	res.Abandoned = !gone
	readTests(p, out, &res)
	e.keep(ctx, t, p, out, &res)
	return res
}

// stopping knows whether a process is being stopped. What an attempt does before its process and after it, such as
// reading files, may wait for a disk or a network for ever. Once the attempt has been told to stop, that is abandoned
// after the grace, as a process is that cannot be killed.
type stopping struct {
	ctx context.Context

	mu   sync.Mutex
	gone chan struct{} // closed when the process is gone or was given up; nil: none was started
}

// begin returns false if the attempt has been told to stop, before the process is started. The caller calls ended, once
// or more often, when the process is gone or was given up.
func (s *stopping) begin() (ended func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, false
	}
	s.gone = make(chan struct{})
	return sync.OnceFunc(func() { close(s.gone) }), true
}

// wait waits while a process is being stopped, which has a grace of its own.
func (s *stopping) wait() {
	s.mu.Lock()
	gone := s.gone
	s.mu.Unlock()
	if gone != nil {
		<-gone
	}
}

// restKilled is what the log of an attempt says whose process has left others running.
const restKilled = "\n[pawl: what was started in the background was still running when the step ended, and was " +
	"killed; to let it go on, write setsid PROGRAM >/dev/null 2>&1 &]\n"

// notStarted returns the result of an attempt whose process was not started. It fails, unless this machine is short of
// something.
func (e *Exec) notStarted(ctx context.Context, err error, failure *policy.Failure) Result {
	if IsShortage(err) {
		failure = Short(ctx, e.pause, err)
	}
	return Result{Failure: failure}
}

// await waits until the process and its group are gone. False means that they were killed and are still there.
func (e *Exec) await(
	ctx context.Context, proc *process, s *streams, grace time.Duration, m marks, b *box,
) bool {
	select {
	case <-proc.exited:
	case <-ctx.Done():
		if !proc.hasExited() {
			proc.stopped = true
			return stopProcess(processGroup{proc, m}, b, grace)
		}
	}

	// The process has ended by itself. Its children may still write their last line, so wait for the end of the
	// streams.
	began := time.Now()
	children := processGroup{proc, marks{}}
	select {
	case <-s.done:
	case <-time.After(groupWait):
	case <-ctx.Done():
	}

	if b != nil && proc.code() != 0 && !b.end() {
		return false
	}

	// A child that is meant to outlive the attempt may need a moment to leave the group.
	if rest := groupWait - time.Since(began); rest > 0 && ctx.Err() == nil && awaitGone(children, rest, nil) {
		return true
	}
	proc.rest = !children.gone()
	return killRest(children)
}

// stopProcess stops a process with its group, or with its container. It reports whether all of it is gone.
func stopProcess(group processGroup, b *box, grace time.Duration) (gone bool) {
	if b == nil {
		group.leader.killed, gone = stopWork(group, grace)
		return gone
	}
	var asking sync.WaitGroup
	group.leader.killed, gone = stopWork(boxWork{b, group, grace, &asking}, grace)
	asking.Wait()
	return gone
}

func (e *Exec) grace(p *ExecPayload) time.Duration {
	if p.Grace != nil {
		return time.Duration(*p.Grace) * time.Millisecond
	}
	return e.cfg.Grace
}

func (p *ExecPayload) check() error {
	switch {
	case p.Container != nil && p.Container.check() != nil:
		return p.Container.check()
	case len(p.Command) == 0 && p.Shell == "" && p.Container == nil:
		return errors.New("there is nothing to run; give command or shell")
	case len(p.Command) > 0 && p.Shell != "":
		return errors.New("command and shell cannot be used together; give one of them")
	case len(p.Command) > 0 && p.Command[0] == "":
		return errors.New("the command's program is an empty text")
	case p.Results != "" && p.Results != resultsInLines && p.Results != resultsInFile:
		return fmt.Errorf("results is file or lines, not %q", p.Results)
	case p.Grace != nil && *p.Grace < 0:
		return fmt.Errorf("grace is %dms; it cannot be negative", *p.Grace)
	}
	return nil
}

// prepared prepares the process, or the program that makes its container.
func (e *Exec) prepared(
	ctx context.Context, t core.Task, p *ExecPayload, results *resultFile,
) (*exec.Cmd, *box, *policy.Failure) {
	if p.Container != nil {
		return e.containerCommand(ctx, t, p, results)
	}
	cmd, failure := e.command(ctx, t, p, results)
	return cmd, nil, failure
}

// command prepares the process. It opens and starts nothing.
func (e *Exec) command(
	ctx context.Context, t core.Task, p *ExecPayload, results *resultFile,
) (*exec.Cmd, *policy.Failure) {
	args := p.Command
	if p.Shell != "" {
		args = shell(p)
	}
	env := e.environment(ctx, t, p, results)
	if p.Dir != "" {
		if failure := noFolder(p.Dir, "dir"); failure != nil {
			return nil, failure
		}
	}
	path, err := e.lookUp(args[0], p.Dir, env)
	if err != nil {
		return nil, notFound(err.Error())
	}
	path, args = p.by.Wrap(path, args)
	cmd := &exec.Cmd{Path: path, Args: args, Env: env, Dir: p.Dir}
	prepare(cmd)
	if p.Shell != "" && len(p.Interpreter) == 0 {
		prepareLine(cmd, p.Shell)
	}
	return cmd, nil
}

func (e *Exec) openLog(t core.Task) *attemptLog {
	if e.cfg.LogDir == "" {
		return nil
	}
	l, err := openLog(LogPath(e.cfg.LogDir, t.Token, t.StepName), e.cfg.LogLimit)
	if err != nil { // the work is more important than its log
		e.cfg.Log.Warn("an attempt runs without a log", "step", t.StepName, "error", err)
		return nil
	}
	return l
}

// closeLog ends the attempt's log. The attempt goes as it went, also if the disk was full.
func (e *Exec) closeLog(t core.Task, out *capture) {
	if err := out.close(); err != nil {
		e.cfg.Log.Warn("the end of an attempt's log is missing", "run", t.Token.Run, "step", t.StepName, "error", err)
	}
}
