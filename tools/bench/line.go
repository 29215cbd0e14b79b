package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// linesFile is a file to which each execution of a step appends a line. It outlives the engine.
const (
	linesFile = "lines"
	idsFile   = "ids"
	lineBytes = 36 + len(" 0\n")
)

// line is one execution of a step.
type line struct {
	run  core.RunID
	step core.StepID
}

// liner is the step that appends a line.
type liner struct {
	file  *os.File
	start chan struct{} // closed when the steps may run
	once  sync.Once
	first func(time.Time)
}

func newLiner(dir string) (*liner, error) {
	f, err := os.OpenFile(filepath.Join(dir, linesFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &liner{file: f, start: make(chan struct{}), first: func(time.Time) {}}, err
}

func (l *liner) Execute(ctx context.Context, t *core.Task, _ worker.Alive) worker.Result {
	select {
	case <-l.start:
	case <-ctx.Done():
	}
	l.once.Do(func() { l.first(time.Now()) })
	if _, err := fmt.Fprintf(l.file, "%s %d\n", t.Token.Run, t.Token.Step); err != nil {
		return worker.Result{Failure: &policy.Failure{Kind: policy.KindError, Message: err.Error()}}
	}
	return worker.Result{}
}

func readLines(path string) ([]line, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	lines := make([]line, 0, len(b)/lineBytes)
	for ; len(b) >= lineBytes; b = b[lineBytes:] {
		id, err := core.ParseRunID(string(b[:36]))
		if err != nil {
			return nil, err
		}
		lines = append(lines, line{id, core.StepID(b[37] - '0')})
	}
	return lines, nil
}

func writeIDs(dir string, ids []core.RunID) error {
	b := make([]byte, 0, len(ids)*len(core.RunID{}))
	for _, id := range ids {
		b = append(b, id[:]...)
	}
	return os.WriteFile(filepath.Join(dir, idsFile), b, 0o600)
}

func readIDs(dir string) ([]core.RunID, error) {
	b, err := os.ReadFile(filepath.Join(dir, idsFile))
	if err != nil {
		return nil, err
	}
	ids := make([]core.RunID, len(b)/len(core.RunID{}))
	for i := range ids {
		copy(ids[i][:], b[i*len(ids[i]):])
	}
	return ids, nil
}

// reported reads from a copy of a killed engine's database which steps have ended durably. The original stays as it was
// after the kill, because its opening is measured.
func reported(ctx context.Context, dir, scratch string) (map[line]bool, error) {
	if err := os.Mkdir(scratch, 0o700); err != nil {
		return nil, err
	}
	for _, suffix := range []string{"", "-wal"} {
		if err := copyFile(filepath.Join(scratch, databaseFile+suffix),
			filepath.Join(dir, databaseFile+suffix)); err != nil {
			return nil, err
		}
	}
	ids, err := readIDs(dir)
	if err != nil {
		return nil, err
	}
	j, err := openJournal(ctx, scratch)
	if err != nil {
		return nil, err
	}
	done, err := endedSteps(ctx, j, ids)
	if closed := j.Close(); err == nil {
		err = closed
	}
	return done, err
}

func endedSteps(ctx context.Context, j journal.Journal, ids []core.RunID) (map[line]bool, error) {
	done := make(map[line]bool)
	note := func(entries []core.Entry) {
		for i := range entries {
			for _, rec := range entries[i].Records {
				if end, ok := rec.(core.StepEnded); ok {
					done[line{entries[i].Run, end.Step}] = true
				}
			}
		}
	}
	lease, err := j.Acquire(ctx, 0, "bench")
	if err != nil {
		return nil, err
	}
	err = j.Tail(ctx, 0, lease.Through, func(_ uint64, entries []core.Entry) error { note(entries); return nil })
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		h, err := j.History(ctx, id)
		if isNotFound(err) {
			continue // all of it is in the tail
		}
		if err != nil {
			return nil, err
		}
		note(h.Entries)
	}
	return done, nil
}

func copyFile(to, from string) (err error) {
	src, err := os.Open(from)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() {
		if closed := dst.Close(); err == nil {
			err = closed
		}
	}()
	_, err = io.Copy(dst, src)
	return err
}
