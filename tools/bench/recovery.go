package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// recoveryRuns is how many two-step runs are under way when the engine is killed.
const recoveryRuns = 10_000

// recovery kills an engine in a child process. It measures how soon another engine goes on, and which steps run twice.
func recovery(ctx context.Context, s *session) (Row, error) {
	work := filepath.Join(s.dir, "work")
	open := filepath.Join(s.dir, "open")
	for _, dir := range []string{work, open} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return Row{}, err
		}
	}
	row, err := s.killed(ctx, work)
	if err != nil {
		return Row{}, err
	}
	n := pick(s, 100_000, 20_000)
	ready, err := s.reopened(ctx, open, n)
	if err != nil {
		return Row{}, err
	}
	row.reached = row.reached && ready <= 3*time.Second
	row.detail += fmt.Sprintf("; %d open runs ready in %.3g s", n, ready.Seconds())
	row.DB, err = folderBytes(work)
	return row, err
}

// killed kills an engine at 55 % of the steps of its runs; another one finishes them.
func (s *session) killed(ctx context.Context, dir string) (Row, error) {
	first, err := s.child(ctx, "work", dir, recoveryRuns)
	if err != nil {
		return Row{}, err
	}
	if _, err := first.expect("started"); err != nil {
		return Row{}, first.fail(err)
	}
	lines := filepath.Join(dir, linesFile)
	const steps = 2 * recoveryRuns
	over := false
	err = until(ctx, func() bool {
		info, err := os.Stat(lines)
		over = first.ended()
		return over || err == nil && info.Size() >= int64(steps*55/100*lineBytes)
	})
	first.kill()
	if err == nil && over {
		err = errChildEnded
	}
	if err != nil {
		return Row{}, err
	}
	before, err := readLines(lines)
	if err != nil {
		return Row{}, err
	}
	done, err := reported(ctx, dir, filepath.Join(s.dir, "copy"))
	if err != nil {
		return Row{}, err
	}
	s.logf("killed after %d of %d steps, %d of them reported", len(before), steps, len(done))

	from, stop := time.Now(), meter()
	second, err := s.child(ctx, "resume", dir, recoveryRuns)
	if err != nil {
		return Row{}, err
	}
	var at [3]time.Duration
	for i, word := range []string{"ready", "first", "done"} {
		t, err := second.expect(word)
		if err != nil {
			return Row{}, second.fail(err)
		}
		at[i] = t.Sub(from)
	}
	if err := second.wait(); err != nil {
		return Row{}, err
	}
	all, err := readLines(lines)
	if err != nil {
		return Row{}, err
	}
	t := judge(before, all[len(before):], done)
	row := Row{Value: at[2].Seconds(), Unit: "s until all done", P50: at[1].Seconds() * 1e3, P99: at[2].Seconds() * 1e3}
	used := stop()
	row.CPU, row.RSS = used.cpu.Seconds(), resident()
	missing := steps - t.distinct
	row.reached = at[1] <= time.Second && at[2] <= 5*time.Second && t.broken == 0 && missing == 0
	row.detail = fmt.Sprintf("ready in %.3g s, first step in %.3g s; %d steps ran twice, all of them in flight but "+
		"%d; %d never ran%s",
		at[0].Seconds(), at[1].Seconds(), t.repeated, t.broken, missing, used)
	return row, nil
}

// tally counts what the engine did to the steps before and after the kill.
type tally struct {
	distinct int // steps that ran
	repeated int // lines of steps that had run before
	broken   int // the repeated ones whose steps had ended and were reported
}

func judge(before, after []line, reported map[line]bool) tally {
	seen := make(map[line]bool, len(before)+len(after))
	var t tally
	for i, lines := range [][]line{before, after} {
		for _, l := range lines {
			if seen[l] {
				t.repeated++
			}
			if i == 1 && reported[l] {
				t.broken++
			}
			seen[l] = true
		}
	}
	t.distinct = len(seen)
	return t
}

// reopened kills an engine that holds open runs with nothing to do and returns how long the next one takes until it has
// carried a run to its end.
func (s *session) reopened(ctx context.Context, dir string, n int) (time.Duration, error) {
	first, err := s.child(ctx, "park", dir, n)
	if err != nil {
		return 0, err
	}
	if _, err := first.expect("parked"); err != nil {
		return 0, first.fail(err)
	}
	first.kill()
	s.logf("killed with %d open runs", n)
	from := time.Now()
	second, err := s.child(ctx, "wake", dir, n)
	if err != nil {
		return 0, err
	}
	at, err := second.expect("ready")
	if err != nil {
		return 0, second.fail(err)
	}
	return at.Sub(from), second.wait()
}
