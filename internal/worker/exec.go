package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// ExecConfig configures an Exec. Zero values are useful.
type ExecConfig struct {
	// LogDir keeps a log of each attempt, in LogDir/<run>/<step>.<attempt>.log; default: no logs.
	LogDir string
	// LogLimit bounds the log of one attempt, in bytes: beyond it the first part and the end are kept. Defaults to
	// 10 MiB.
	LogLimit int64
	// Owner marks the processes, in the environment variable PAWL_OWNER, so that KillLeftovers finds those that
	// outlive a killed engine. It should be unique to the engine's database. Default: no mark.
	Owner string
	// Grace is the default of a payload's grace; defaults to 5s.
	Grace time.Duration
	// Log takes what people should know about the worker itself; defaults to discarding.
	Log *slog.Logger
}

// ExecPayload is the payload of an exec task.
type ExecPayload struct {
	// Command is a program and its arguments; a name without a slash is looked up in the process's PATH.
	Command []string `json:"command,omitempty"`
	// Shell is a text for /bin/sh -c, instead of Command.
	Shell string `json:"shell,omitempty"`
	// Env is added to the environment.
	Env map[string]string `json:"env,omitempty"`
	// Dir is where the process runs; default: where the worker runs.
	Dir string `json:"dir,omitempty"`
	// Stdin is what the process reads; default: nothing.
	Stdin string `json:"stdin,omitempty"`
	// Grace is the time between SIGTERM and SIGKILL, in milliseconds.
	Grace *int64 `json:"grace,omitempty"`
}

// Exec executes processes: one process group for each attempt.
//
// # What a process is told
//
// The environment variables PAWL_RUN_ID, PAWL_STEP, PAWL_ATTEMPT, PAWL_IDEMPOTENCY_KEY (the same for all attempts of
// the step), PAWL_DEADLINE_MS (what is left of the attempt's deadline; absent without one), PAWL_LAST_HEARTBEAT (the
// details of the previous attempt's last heartbeat; absent without), PAWL_OUTPUT (a file for results, below) and
// PAWL_OWNER.
//
// # What a process tells
//
// Each complete line on stdout or stderr is a sign of life. The output has exitCode, the last 4 KiB of stdout and
// stderr as text (what is not UTF-8 is replaced by U+FFFD), stdoutBytes, stderrBytes, and log, the path of the whole
// log. Results come on top, and win over these names except exitCode:
//
//   - the last line of stdout that is JSON: an object's keys, or another value under the key value;
//   - the file $PAWL_OUTPUT: lines name=value, or name<<END, lines, and END for a text of several lines.
//
// A line of stdout {"pawl": {"heartbeat": DETAILS}} is a heartbeat; its details reach the next attempt. A line
// {"pawl": {"failed": true, "type": "…", "message": "…", "code": 7, "retryAfter": "5s", "nonRetryable": true}}, where
// it is the last such line, fails the attempt whatever the exit code, every field but failed being optional. Its kind
// is failed, or error where it wishes a retryAfter, unless it says "kind". Without failed it adds to the failure of a
// process that exits with another code than 0.
//
// # How it ends
//
// Exit code 0 is success. Any other is a failure of kind error and type exit with that code, death by a signal one of
// type signal with the code 128 + the signal's number. A command that is not there or not executable is of kind failed
// and type not_found.
//
// When the attempt is stopped, its process group gets SIGTERM, after the grace SIGKILL, and after another grace (at
// least a second) it is abandoned. On Linux the same is done to processes that left the group and still carry the
// attempt's environment. When the process ends by itself, what is left of its group may finish writing for half
// a second and is then killed. What is to outlive the attempt must leave the group and close stdout and stderr
// (setsid program >/dev/null 2>&1 &), and drop PAWL_OWNER from its environment to outlive the engine's recovery.
//
// On Linux a process dies with the worker, however that ends; its children are found by KillLeftovers.
type Exec struct{ cfg ExecConfig }

// Bounds of an attempt, none of which depends on a step.
const (
	defaultGrace    = 5 * time.Second
	defaultLogLimit = 10 << 20
	minKillWait     = time.Second            // for a killed process to be gone
	lingerWait      = 500 * time.Millisecond // for the rest of the group to finish writing
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
	return &Exec{cfg: cfg}
}

// Execute runs the process.
func (e *Exec) Execute(ctx context.Context, t core.Task, alive Alive) Result {
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
	results, err := newResultFile(e.cfg.LogDir, t.Token, t.StepName)
	if err != nil {
		return Result{Failure: &policy.Failure{
			Kind: policy.KindError, Type: "start", Message: fmt.Sprintf("no file for $PAWL_OUTPUT: %v", err),
		}}
	}
	defer results.remove()
	cmd, failure := e.command(ctx, t, &p, results.path)
	if failure != nil {
		return Result{Failure: failure}
	}
	out := newCapture(e.openLog(t), alive)
	defer out.close()
	streams, err := out.connect(cmd, p.Stdin)
	if err != nil {
		return Result{Failure: startFailure(cmd, err)}
	}
	defer streams.close()
	proc, err := startProcess(cmd)
	streams.started(err == nil)
	if err != nil {
		return Result{Failure: startFailure(cmd, err)}
	}
	gone := e.await(ctx, proc, streams, e.grace(&p), marksOf(e.cfg.Owner, t))
	streams.end()
	if proc.stopped {
		return Result{Failure: Stopped(ctx), Abandoned: !gone}
	}
	res := conclude(proc, out, results)
	res.Abandoned = !gone
	return res
}

// await waits until the process and its group are gone. False: they were killed and did not go.
func (e *Exec) await(ctx context.Context, proc *process, s *streams, grace time.Duration, m marks) bool {
	select {
	case <-proc.exited:
	case <-ctx.Done():
		if !proc.hasExited() {
			proc.stopped = true
			return climb(processGroup{proc, m}, grace)
		}
	}
	began, left := time.Now(), processGroup{proc, marks{}}
	select { // what the process left behind may finish its last line
	case <-s.done:
	case <-time.After(lingerWait):
	case <-ctx.Done():
	}
	if rest := lingerWait - time.Since(began); rest > 0 && ctx.Err() == nil {
		awaitGone(left, rest, nil) // and what is to outlive it may be about to leave the group
	}
	return sweep(left)
}

func (e *Exec) grace(p *ExecPayload) time.Duration {
	if p.Grace != nil {
		return time.Duration(*p.Grace) * time.Millisecond
	}
	return e.cfg.Grace
}

func (p *ExecPayload) check() error {
	switch {
	case len(p.Command) == 0 && p.Shell == "":
		return errors.New("there is nothing to run; give command or shell")
	case len(p.Command) > 0 && p.Shell != "":
		return errors.New("command and shell exclude each other; give one of them")
	case len(p.Command) > 0 && p.Command[0] == "":
		return errors.New("the command's program is an empty text")
	case p.Grace != nil && *p.Grace < 0:
		return fmt.Errorf("grace is %dms; it cannot be negative", *p.Grace)
	}
	return nil
}

// command builds the process to be; nothing has been opened or started.
func (e *Exec) command(ctx context.Context, t core.Task, p *ExecPayload, results string) (*exec.Cmd, *policy.Failure) {
	args := p.Command
	if p.Shell != "" {
		args = shell(p.Shell)
	}
	env := e.environment(ctx, t, p, results)
	if p.Dir != "" {
		if info, err := os.Stat(p.Dir); err != nil || !info.IsDir() {
			return nil, notFound(fmt.Sprintf("the folder %s does not exist; create it, or correct dir", p.Dir))
		}
	}
	path, err := lookUp(args[0], p.Dir, env)
	if err != nil {
		return nil, notFound(err.Error())
	}
	cmd := &exec.Cmd{Path: path, Args: args, Env: env, Dir: p.Dir}
	prepare(cmd)
	return cmd, nil
}

func (e *Exec) openLog(t core.Task) *attemptLog {
	if e.cfg.LogDir == "" {
		return nil
	}
	l, err := openLog(LogPath(e.cfg.LogDir, t.Token, t.StepName), e.cfg.LogLimit)
	if err != nil { // a log that cannot be written is no reason to leave the work undone
		e.cfg.Log.Warn("an attempt runs without a log", "step", t.StepName, "error", err)
		return nil
	}
	return l
}
