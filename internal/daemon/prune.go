package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// pruneAtOnce is how many runs one call of the journal removes. Appends wait meanwhile.
const pruneAtOnce = 1000

// pruner removes runs that have ended from the database of this process, and their logs.
type pruner struct {
	journal journal.Journal
	svc     api.Service
	logs    string // the folder of logs of this database only; empty if there is none

	artifacts *artifact.Store // files of this database only; nil if none are kept
}

func (p pruner) Prune(ctx context.Context, r api.PruneRequest) (out api.Pruned, err error) {
	if r.OlderThan < 0 {
		return out, &api.Error{Code: api.CodeInvalid, Message: "prune: an age is not negative"}
	}
	before := time.Now().Add(-r.OlderThan.Std())
	if r.DryRun {
		out.Runs, err = p.count(ctx, api.At(before))
		return out, err
	}
	spans, err := p.journal.Partitions(ctx)
	if err != nil {
		return out, err
	}
	for _, span := range spans {
		for n := pruneAtOnce; n == pruneAtOnce; {
			n, err = p.journal.Prune(ctx, span.Partition, journal.Old{Before: policy.At(before), Limit: pruneAtOnce})
			if out.Runs += n; err != nil {
				return out, err
			}
		}
	}
	if out.Logs, err = p.sweep(ctx, before); err != nil {
		return out, err
	}
	out.Artifacts, err = p.sweepArtifacts(ctx, before)
	return out, err
}

// count counts the runs that ended before an instant.
func (p pruner) count(ctx context.Context, before api.Time) (n int, err error) {
	q := api.Query{CreatedBefore: before, Limit: 1000}
	for _, phase := range api.RunPhases() {
		if phase.Closed() {
			q.Phases = append(q.Phases, phase)
		}
	}
	for more := true; more; {
		page, err := p.svc.Runs(ctx, q)
		if err != nil {
			return n, err
		}
		for _, row := range page.Runs {
			if row.EndedAt != 0 && row.EndedAt < before {
				n++
			}
		}
		more, q.Cursor = page.Next != "", page.Next
	}
	return n, nil
}

// sweep removes the logs of runs that began before an instant and are no longer in the database.
func (p pruner) sweep(ctx context.Context, before time.Time) (n int, err error) {
	if p.logs == "" {
		return 0, nil
	}
	folders, err := os.ReadDir(p.logs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for _, f := range folders {
		id, err := core.ParseRunID(f.Name())
		if err != nil || id.CreatedAt() >= policy.At(before) {
			continue // it is not one of Pawl's, or too young
		}
		if _, err := p.svc.Run(ctx, f.Name()); api.CodeOf(err) != api.CodeNotFound {
			if err != nil && ctx.Err() != nil {
				return n, err
			}
			continue // the run exists, or this is unknown
		}
		if err := os.RemoveAll(filepath.Join(p.logs, f.Name())); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// sweepEvery is how often the logs of removed runs are looked for while a process has the database.
const sweepEvery = time.Hour

// Pruner returns what removes runs that have ended, with their logs.
func (d *Daemon) Pruner() api.Pruner { return d.pruner() }

func (d *Daemon) pruner() pruner {
	p := pruner{journal: d.cfg.Journal, svc: d.svc}
	if d.cfg.Paths != nil {
		p.logs = d.cfg.Paths.OwnLogDir()
	}
	if p.logs != "" {
		p.artifacts = d.cfg.Processes.Artifacts
	}
	return p
}

// sweep removes logs of runs that the engine has removed, until the daemon closes.
func (d *Daemon) sweep() {
	var ctx context.Context
	ctx, d.sweeping = context.WithCancel(context.Background())
	d.swept = make(chan struct{})
	go func() {
		defer close(d.swept)
		d.pruner().sweepLogs(ctx, d.cfg.Retention)
	}()
}

// sweepLogs removes logs as long as ctx lives: the engine itself removes the runs.
func (p pruner) sweepLogs(ctx context.Context, retention time.Duration) {
	look := time.NewTicker(sweepEvery)
	defer look.Stop()
	for {
		_, _ = p.sweep(ctx, time.Now().Add(-retention)) // files that cannot be removed are tried again
		_, _ = p.sweepArtifacts(ctx, time.Now().Add(-retention))
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}
