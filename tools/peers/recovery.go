package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The work recovery: runs of two steps, each of which adds a line to a file. The program that runs them, and its server
// if it has one, are killed when 55 % of the lines are there, and started again.
const (
	mostRecovered  = 10_000
	recoveryStart  = 15 * time.Second // the time to start them
	recoveryKilled = time.Minute      // the time for the lines until the kill
	recoveryWithin = 2 * time.Minute  // the time for the others; a run that has not ended then counts as lost
)

// marks is where steps add their lines. Until all runs are accepted, steps wait: the kill then meets the same number
// of them with all peers.
var marks struct {
	file *os.File
	open chan struct{}
}

// mark adds the line of a step.
func mark(run int64, step int) error {
	<-marks.open
	_, err := fmt.Fprintf(marks.file, "%d %d\n", run, step)
	return err
}

// The names of the programs that are killed and that finish their work, and of the file.
const (
	killedCommand, finishCommand = "killed", "finish"
	marksFile                    = "marks"
)

// serveRecovery does the work of such a program: it prints how many runs are accepted, and works until its input ends.
func serveRecovery(ctx context.Context, s stage, finish bool) (err error) {
	marks.open = make(chan struct{})
	marks.file, err = os.OpenFile(filepath.Join(s.dir, marksFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if finish {
		close(marks.open) // the work may go on before the peer is all there
		e, err := s.peer.open(ctx, s.dir, s.postgres)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		return e.close()
	}
	e, err := s.open(ctx)
	if err != nil {
		return err
	}
	n, err := startMany(ctx, e, s.work.clients, mostRecovered, time.Now().Add(recoveryStart),
		func(i int) job { return job{Run: int64(i) + 1, Steps: s.work.steps, Mark: true} })
	if err != nil {
		return errors.Join(err, e.close())
	}
	fmt.Println(n)
	close(marks.open)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return e.close()
}

// A program is one of those, in its own group with its server.
type program struct {
	cmd  *exec.Cmd
	in   io.Closer
	out  io.Reader
	said strings.Builder
}

func (s stage) program(ctx context.Context, command string) (*program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"-postgres", s.postgres, command, s.peer.name, s.work.name, s.dir}
	p := &program{cmd: exec.CommandContext(ctx, self, args...)}
	killWhole(p.cmd)
	p.cmd.Stderr = &p.said
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// wait waits for the program's end.
func (p *program) wait() error {
	if err := p.cmd.Wait(); err != nil {
		return because(err, p.said.String())
	}
	return nil
}

func measureRecovery(ctx context.Context, s stage) (turn, error) {
	n, err := s.killed(ctx)
	if err != nil {
		return turn{}, err
	}
	used := func() usage {
		return usage{at: time.Now(), own: endedChildren(), base: s.database.processor(), busy: machineBusy()}
	}
	from := used()
	p, err := s.program(ctx, finishCommand)
	if err != nil {
		return turn{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() {
		err := p.wait()
		cancel(err)
		ended <- err
	}()
	_, err = s.await(ctx, n*s.work.steps, recoveryWithin)
	t := turn{Runs: float64(n), Seconds: time.Since(from.at).Seconds()}
	_ = p.in.Close()
	if failed := <-ended; failed != nil {
		return turn{}, failed
	}
	if err != nil {
		return turn{}, err
	}
	lines, steps, whole, err := s.marked()
	t.Again, t.Lost = float64(lines-steps), float64(n-whole)
	t.since(from, used(), t.Runs)
	return t, err
}

// killed starts runs and kills their program and its server among their steps. It returns how many runs were accepted.
func (s stage) killed(ctx context.Context) (n int, err error) {
	p, err := s.program(ctx, killedCommand)
	if err != nil {
		return 0, err
	}
	_, failed := fmt.Fscan(p.out, &n)
	if failed == nil {
		var there bool
		there, err = s.await(ctx, n*s.work.steps*55/100, recoveryKilled)
		if err == nil && !there {
			err = fmt.Errorf("55 %% of the steps of %d runs have not ended in %s", n, recoveryKilled)
		}
		_ = p.cmd.Cancel()
	}
	if ended := p.wait(); failed != nil {
		return 0, ended
	}
	return n, err
}

// await waits until that many steps have their line, and reports whether they have.
func (s stage) await(ctx context.Context, steps int, within time.Duration) (bool, error) {
	for over := time.Now().Add(within); ; rest(ctx, 10*time.Millisecond) {
		_, there, _, err := s.marked()
		if err != nil || there >= steps || time.Now().After(over) || ctx.Err() != nil {
			return there >= steps, errors.Join(err, context.Cause(ctx))
		}
	}
}

// marked returns how many lines there are, of how many different steps, and how many runs have all of theirs.
func (s stage) marked() (lines, steps, whole int, err error) {
	text, err := os.ReadFile(filepath.Join(s.dir, marksFile))
	if err != nil {
		return 0, 0, 0, err
	}
	seen, of := map[string]bool{}, map[string]int{}
	for line := range strings.Lines(string(text)) {
		lines++
		if seen[line] {
			continue
		}
		seen[line] = true
		run, _, _ := strings.Cut(line, " ")
		of[run]++
		if of[run] == s.work.steps {
			whole++
		}
	}
	return lines, len(seen), whole, nil
}

// endedChildren returns the processor time of this process and of its children that have ended, with theirs.
func endedChildren() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
