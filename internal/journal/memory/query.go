package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

func (j *Journal) Due(ctx context.Context, partition int, from, before core.Time, limit int) ([]journal.Due, error) {
	if err := j.enter(ctx, OpDue, nil); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	var due []journal.Due
	for id, r := range j.disk.runs {
		if r.Partition == partition && r.Wake != 0 && !r.Phase.Closed() && from <= r.Wake && r.Wake < before {
			due = append(due, journal.Due{Run: id, Wake: r.Wake})
		}
	}
	slices.SortFunc(due, func(a, b journal.Due) int {
		return cmp.Or(cmp.Compare(a.Wake, b.Wake), bytes.Compare(a.Run[:], b.Run[:]))
	})
	return due[:min(limit, len(due))], nil
}

func (j *Journal) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	if err := j.enter(ctx, OpList, nil); err != nil {
		return journal.Page{}, err
	}
	defer j.mu.Unlock()
	limit := q.Limit
	if limit <= 0 {
		limit = journal.DefaultLimit
	}
	var page journal.Page
	for _, id := range j.disk.newest() {
		r := j.disk.runs[id]
		if q.Retrying { // otherwise it is not needed, and would cost time in each list
			r.Retrying = j.disk.retrying(&r)
		}
		if !q.Follows(&r) || !q.Selects(&r) {
			continue
		}
		if len(page.Runs) == limit && !q.ByDeadline {
			page.More = true
			break
		}
		page.Runs = append(page.Runs, r)
	}
	if q.ByDeadline {
		slices.SortFunc(page.Runs, q.Order)
		page.More = len(page.Runs) > limit
		page.Runs = page.Runs[:min(len(page.Runs), limit)]
	}
	for i := range page.Runs {
		page.Runs[i].Retrying = j.disk.retrying(&page.Runs[i])
	}
	return page, nil
}

// retrying reports whether a step of an open run backs off or is tried again.
func (d *disk) retrying(r *journal.RunRow) bool {
	for _, s := range d.steps[r.ID] {
		if s.Retrying() && r.EndedAt == 0 && r.Wake != journal.WakeSetAside {
			return true
		}
	}
	return false
}

func (j *Journal) Prune(ctx context.Context, partition int, old journal.Old) (int, error) {
	if err := j.enter(ctx, OpPrune, nil); err != nil {
		return 0, err
	}
	defer j.mu.Unlock()
	if r, ok := j.disk.runs[old.Run]; ok {
		if r.Partition != partition || !r.Phase.Closed() {
			return 0, nil
		}
		j.disk.drop(old.Run)
		return 1, nil
	}
	p, n, seen := j.disk.partition(partition), 0, 0
	for _, e := range p.ended {
		if n == old.Limit || e.at >= old.Before {
			break
		}
		if r, ok := j.disk.runs[e.id]; ok && r.Phase.Closed() && r.EndedAt == e.at {
			j.disk.drop(e.id)
			n++
		}
		seen++
	}
	p.ended = slices.Delete(p.ended, 0, seen)
	return n, nil
}

// Steps returns a run's steps in the view, for tests.
func (j *Journal) Steps(run core.RunID) []journal.StepRow {
	j.mu.Lock()
	defer j.mu.Unlock()
	var rows []journal.StepRow
	for _, r := range j.disk.steps[run] {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b journal.StepRow) int { return cmp.Compare(a.Step, b.Step) })
	return rows
}

// Attempts returns a run's attempts in the view, for tests.
func (j *Journal) Attempts(run core.RunID) []journal.AttemptRow {
	j.mu.Lock()
	defer j.mu.Unlock()
	var rows []journal.AttemptRow
	for _, r := range j.disk.attempts[run] {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b journal.AttemptRow) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Attempt, b.Attempt))
	})
	return rows
}
