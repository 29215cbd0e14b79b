package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
)

// carry follows runs on a machine to their end, tells how they ended, and closes the machine. The error carries the
// exit status.
func (a *app) carry(ctx context.Context, m *machine, ids []string, how telling) error {
	if m.remote != nil {
		return a.carryThrough(ctx, m, ids, how)
	}
	f := a.newFollower(m.svc, m, how)
	if f.others = a.others(ctx, m.svc, ids); f.others > 0 && how == tellPlain {
		fmt.Fprintf(a.Err, "pawl: %s\n", live.Resting(f.others))
	}
	err := f.follow(ctx, ids)
	// Nobody reads the output any more, as with "pawl run FILE | head": that is a way to leave.
	left := errors.Is(err, errLeft) || errors.Is(err, syscall.EPIPE)
	if left {
		f.leave()
	} else if err == nil {
		f.conclude()
		a.waitForOthers(m)
	}
	// A second signal while attempts are being stopped ends the process at once; the next one to open the database ends
	// what is left of them.
	impatient := make(chan os.Signal, 1)
	signal.Notify(impatient, os.Interrupt)
	go func() {
		if _, ok := <-impatient; ok {
			os.Exit(exitCancelled)
		}
	}()
	ended := m.Err() // the engine by itself: err says why
	closeErr := m.close()
	signal.Stop(impatient)
	close(impatient)
	switch {
	case left:
		return &statusError{status: exitCancelled}
	case err != nil && ended != nil:
		return err
	case err != nil:
		return errors.Join(err, closeErr)
	case closeErr != nil:
		return closeErr
	case f.status() != exitOK:
		return &statusError{status: f.status()}
	default:
		return nil
	}
}

// openPhases are the phases of runs that have not ended.
var openPhases = []api.RunPhase{api.RunPending, api.RunRunning, api.RunWaiting, api.RunPaused}

// others counts the open runs that rest meanwhile.
func (a *app) others(ctx context.Context, svc api.Service, ids []string) int {
	page, err := svc.Runs(ctx, api.Query{Phases: openPhases, Limit: 1000})
	if err != nil {
		return 0 // it is a remark, not worth failing for
	}
	n := 0
	for _, row := range page.Runs {
		if row.Parent == "" && !slices.Contains(ids, row.Run) {
			n++
		}
	}
	return n
}

func isClosed(err error) bool { return errors.Is(err, api.Sentinel(api.CodeRunClosed)) }
