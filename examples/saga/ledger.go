package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sync"
	"time"
)

// ledger simulates the systems outside: the warehouse, the bank and the courier. It is a file with a line for each
// thing that was done. Like such systems, it accepts a request for the same order only once.
type ledger struct {
	pace time.Duration // duration of each action

	mu   sync.Mutex
	file *os.File
	done map[entry]bool
}

type entry struct{ what, order string }

func openLedger(path string, pace time.Duration) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	l := &ledger{pace: pace, file: f, done: map[entry]bool{}}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e entry
		if _, err := fmt.Sscan(lines.Text(), &e.what, &e.order); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, lines.Text(), err)
		}
		l.done[e] = true
	}
	return l, lines.Err()
}

// do makes an entry for an order, unless it was made before.
func (l *ledger) do(ctx context.Context, what, order string) error {
	if err := l.work(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(entry{what, order})
}

// undo reverses an entry, unless it was never made or is reversed already.
func (l *ledger) undo(ctx context.Context, what, done, order string) error {
	if err := l.work(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.done[entry{done, order}] {
		return nil
	}
	return l.write(entry{what, order})
}

func (l *ledger) write(e entry) error {
	if l.done[e] {
		return nil
	}
	if _, err := fmt.Fprintln(l.file, e.what, e.order); err != nil {
		return err
	}
	l.done[e] = true
	return nil
}

// work takes some time, or ends early because the step was told to stop.
func (l *ledger) work(ctx context.Context) error {
	select {
	case <-time.After(l.pace):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
