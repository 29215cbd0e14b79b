package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/daemon/database"
	"github.com/pawl-dev/pawl/internal/journal/sqlite"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// carry follows runs on a machine to their end, reports how they ended, and closes the machine. The error carries the
// exit status.
func (a *app) carry(ctx context.Context, m *machine, ids []string, how telling) error {
	if m.remote != nil {
		return a.carryThrough(ctx, m, ids, how)
	}
	f := a.newFollower(m.svc, m, how)
	if f.others = a.others(ctx, m.svc, ids); !f.others.Empty() && how == tellPlain {
		fmt.Fprintf(a.Err, "pawl: %s\n", f.others)
	}
	err := f.follow(ctx, ids)
	// The reader of the output has gone, as with "pawl run FILE | head": that is a way to leave.
	left := errors.Is(err, errLeft) || errors.Is(err, syscall.EPIPE)
	if left {
		f.leave()
	} else if err == nil {
		f.conclude()
		a.waitForOthers(m)
	}
	// A second signal while attempts are being stopped ends the process at once; the next process to open the database
	// ends what is left of them.
	impatient := make(chan os.Signal, 1)
	signal.Notify(impatient, os.Interrupt)
	go func() {
		if _, ok := <-impatient; ok {
			os.Exit(exitCancelled)
		}
	}()
	ended := m.Err() // the engine on its own: err is the reason
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

// others finds the open runs and the schedules that rest meanwhile.
func (a *app) others(ctx context.Context, svc api.Service, ids []string) (out live.Others) {
	page, err := svc.Runs(ctx, api.Query{Phases: openPhases, Limit: 1000})
	if err != nil {
		return out // it is a remark, not worth failing for
	}
	for _, row := range page.Runs {
		name, is := schedule.NameOf(row.WorkflowID)
		switch {
		case row.Parent != "" || slices.Contains(ids, row.Run):
		case is && row.Workflow == schedule.Workflow:
			out.Schedules = append(out.Schedules, name)
		default:
			out.Runs++
		}
	}
	return out
}

func isClosed(err error) bool { return errors.Is(err, api.Sentinel(api.CodeRunClosed)) }

// carriers knows which runs of a database file no process carries on.
type carriers struct {
	place database.Place

	mu      sync.Mutex
	at      time.Time       // when somebody was asked last
	held    bool            // a process has the file
	resting map[string]bool // the open runs that it does not carry on
}

// carriersKnown is how long it counts who carries what.
const carriersKnown = time.Second

// rests reports whether no process carries a run on: no process has the file, or the one that has it carries on others.
func (c *carriers) rests(ctx context.Context, run core.RunID, _ func() core.RunID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := clockNow()
	if c.at.IsZero() || now.Sub(c.at) > carriersKnown {
		c.at, c.resting = now, nil
		if _, c.held = sqlite.Held(c.place.Path); c.held {
			c.resting = restingAt(ctx, c.place)
		}
	}
	return !c.held || c.resting[run.String()]
}

// restingAt asks the process that has a database file which open runs it does not carry on. A process that does not
// answer, such as a Go program, carries on all it has.
func restingAt(ctx context.Context, p database.Place) map[string]bool {
	client := p.Join(ctx)
	if client == nil {
		return nil
	}
	defer client.Close()
	out := map[string]bool{}
	for q := (api.Query{Resting: true, Limit: 1000}); ; {
		page, err := client.Runs(ctx, q)
		if err != nil {
			return nil
		}
		for _, r := range page.Runs {
			out[r.Run] = true
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return out
		}
	}
}
