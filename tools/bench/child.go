package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker"
)

// childCommand is the subcommand that makes this program a row's child.
const childCommand = "child"

// process is a child process. It reports what it has reached on its standard output, one word a line. It ends when its
// standard input is closed, so that it does not outlive its parent.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer   // held open
	lines chan string // closed when the child has ended
}

// child starts this program again.
func (s *session) child(ctx context.Context, mode, dir string, n int) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, childCommand, mode, dir, strconv.Itoa(n))
	cmd.Stderr = s.Log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	const words = 8 // more than a child ever reports, so the reader never blocks
	p := &process{cmd, in, make(chan string, words)}
	go func() {
		for scan := bufio.NewScanner(out); scan.Scan(); {
			p.lines <- scan.Text()
		}
		close(p.lines)
	}()
	return p, nil
}

// expect reads until the child reports the word, and returns the time of that.
func (p *process) expect(word string) (time.Time, error) {
	for line := range p.lines {
		said, when, _ := strings.Cut(line, " ")
		if said != word {
			continue
		}
		ns, err := strconv.ParseInt(when, 10, 64)
		return time.Unix(0, ns), err
	}
	return time.Time{}, fmt.Errorf("%w before it said %q", errChildEnded, word)
}

var errChildEnded = errors.New("the child process ended")

// ended reports whether the child has ended on its own.
func (p *process) ended() bool {
	select {
	case _, more := <-p.lines:
		return !more
	default:
		return false
	}
}

// kill kills the child without any chance to clean up, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended on its own
	for range p.lines {
	}
	_ = p.cmd.Wait() // its status shows that it was killed
}

// fail ends the child after an error.
func (p *process) fail(err error) error {
	p.kill()
	return fmt.Errorf("%w (%s)", err, p.cmd.ProcessState)
}

// wait waits until the child has ended on its own.
func (p *process) wait() error {
	for range p.lines { // the rest of its output must be read before Wait closes the pipe
	}
	return p.cmd.Wait()
}

// runChild runs in the child process. dir is the folder of the row, or the address of a server; n is the number of
// runs.
func runChild(ctx context.Context, out io.Writer, mode, dir string, n int) error {
	say := func(word string, at time.Time) {
		fmt.Fprintf(out, "%s %d\n", word, at.UnixNano())
	}
	if mode == "idle" {
		return idleAt(ctx, dir, n, say)
	}
	if mode == "node" {
		return runNode(ctx, dir, n, say)
	}
	l, err := newLiner(dir)
	if err != nil {
		return err
	}
	l.first = func(at time.Time) { say("first", at) }
	if mode == "resume" {
		close(l.start)
	}
	st, err := openStack(ctx, dir, map[string]worker.Executor{"bench.line": l, "bench.broken": flaky(3)})
	if err != nil {
		return err
	}
	switch mode {
	case "work":
		err = st.work(ctx, dir, n, l, say)
	case "resume":
		say("ready", time.Now())
		err = st.resume(ctx, dir, say)
	case "park":
		err = st.parkOpen(ctx, n, say)
	case "wake":
		if err = st.once(ctx, definition(oneStepFlow), nil); err == nil {
			say("ready", time.Now())
		}
	default:
		err = errors.New("bench child: unknown mode " + mode)
	}
	if err != nil {
		return st.fail(err)
	}
	return st.close()
}

// work starts the runs, executes their steps, and waits until it is killed.
func (st *stack) work(ctx context.Context, dir string, n int, l *liner, say func(string, time.Time)) error {
	ids := make([]core.RunID, n)
	def := definition(twoStepFlow)
	err := each(ctx, n, inFlight, func(ctx context.Context, i int) (err error) {
		ids[i], err = st.start(ctx, def, nil)
		return err
	})
	if err != nil {
		return err
	}
	if err := writeIDs(dir, ids); err != nil {
		return err
	}
	say("started", time.Now())
	close(l.start)
	<-ctx.Done()
	return ctx.Err()
}

// resume waits for the results of all runs, as clients would.
func (st *stack) resume(ctx context.Context, dir string, say func(string, time.Time)) error {
	ids, err := readIDs(dir)
	if err != nil {
		return err
	}
	err = each(ctx, len(ids), inFlight, func(ctx context.Context, i int) error { return st.await(ctx, ids[i]) })
	if err == nil {
		say("done", time.Now())
	}
	return err
}

// parkOpen makes runs that sleep and runs that wait for their next attempt, one of each in turn, and waits to be
// killed.
func (st *stack) parkOpen(ctx context.Context, n int, say func(string, time.Time)) error {
	defs := [2]string{sleepFlow, backoffFlow}
	sleep, backoff := definition(defs[0]), definition(defs[1])
	err := each(ctx, n, inFlight, func(ctx context.Context, i int) error {
		def := sleep
		if i%2 == 1 {
			def = backoff
		}
		_, err := st.start(ctx, def, nil)
		return err
	})
	if err != nil {
		return err
	}
	err = until(ctx, func() bool { s := st.engine.Stats(); return s.Live == 0 && s.Queued == 0 })
	if err != nil {
		return err
	}
	say("parked", time.Now())
	<-ctx.Done()
	return ctx.Err()
}
