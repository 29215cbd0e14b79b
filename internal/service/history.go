package service

import (
	"context"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/history"
)

func (r *reads) History(ctx context.Context, name string) ([]byte, error) {
	entries, k, err := r.recorded(ctx, name)
	if err != nil {
		return nil, err
	}
	text, err := history.Write(k.workflow.Definition, entries)
	return text, wrap(err)
}

// recorded returns all records of a run, and its workflow.
func (r *reads) recorded(ctx context.Context, name string) ([]core.Entry, *known, error) {
	id, err := r.find(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	entries, err := r.src.Entries(ctx, id, 0)
	if absent(err) {
		return nil, nil, noSuchRun(name)
	}
	if err != nil {
		return nil, nil, wrap(err)
	}
	k, err := r.workflows.of(ctx, entries[0])
	return entries, k, wrap(err)
}
