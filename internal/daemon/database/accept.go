package database

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/sqlite"
	"github.com/pawl-dev/pawl/policy"
)

// OpenToAccept opens the database without comparing it with what was seen of it before.
func (p Place) OpenToAccept(ctx context.Context) (journal.Journal, error) {
	if p.Server != "" {
		return server.Open(ctx, p.Server, "")
	}
	return sqlite.Open(p.Path, sqlite.Options{Since: policy.At(time.Now())})
}

// Given is what is given up when a database that went back is accepted.
type Given struct {
	Batches []string // by partition, for people; as far as this machine has seen them
	// Runs have logs on this machine, and are not in the database: the newest first, at most mostRuns.
	Runs []string
}

// mostRuns and mostLogs bound what is looked at and shown.
const (
	mostRuns = 100
	mostLogs = 10_000
)

// Gives returns what would be given up.
func (p Place) Gives(ctx context.Context, j journal.Journal) (g Given, err error) {
	seen, err := journal.ReadNotes(p.SeenFile())
	if err != nil {
		return g, err
	}
	found, err := j.Stands(ctx)
	if err != nil {
		return g, err
	}
	if seen.Database == "" || found.Database == "" || seen.Database == found.Database {
		g.Batches = seen.Lost(&found)
	}
	g.Runs, err = p.missing(ctx, j)
	return g, err
}

// missing returns runs whose attempts have written logs here, and which the database does not have. The newest are
// looked at.
func (p Place) missing(ctx context.Context, j journal.Journal) (runs []string, err error) {
	logs, err := os.ReadDir(p.LogDir())
	if err != nil || len(logs) == 0 {
		return nil, nil //nolint:nilerr // there are none to compare
	}
	tail, err := inTail(ctx, j)
	if err != nil {
		return nil, err
	}
	slices.Reverse(logs) // the names of runs grow with time
	for _, f := range logs[:min(len(logs), mostLogs)] {
		id, err := core.ParseRunID(f.Name())
		if err != nil || tail[id] {
			continue
		}
		page, err := j.List(ctx, journal.Query{After: next(id), Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(page.Runs) == 0 || page.Runs[0].ID != id {
			if runs = append(runs, f.Name()); len(runs) == mostRuns {
				break
			}
		}
	}
	return runs, nil
}

// next returns the id after one, behind which a list begins with it.
func next(id core.RunID) core.RunID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}

// inTail returns the runs of the batches that the view does not have yet.
func inTail(ctx context.Context, j journal.Journal) (map[core.RunID]bool, error) {
	spans, err := j.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	out := map[core.RunID]bool{}
	for _, s := range spans {
		err := j.Tail(ctx, s.Partition, s.Through, func(_ uint64, entries []core.Entry) error {
			for i := range entries {
				out[entries[i].Run] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Accept makes what the database has the truth from now on, also for this machine.
func (p Place) Accept(ctx context.Context, j journal.Journal) (journal.Generation, error) {
	g, err := j.Accept(ctx)
	if err != nil {
		return g, err
	}
	notes, err := journal.OpenNotes(p.SeenFile())
	if err != nil {
		return g, err
	}
	notes.Forget(j.Seen())
	return g, notes.Close()
}
