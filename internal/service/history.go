package service

import (
	"context"

	"github.com/pawl-dev/pawl/internal/history"
)

// History returns a run's history as a file for a replay; see package history. Errors: CodeNotFound.
func (r *reads) History(ctx context.Context, name string) ([]byte, error) {
	id, err := r.find(ctx, name)
	if err != nil {
		return nil, err
	}
	entries, err := r.src.Entries(ctx, id, 0)
	if absent(err) {
		return nil, noSuchRun(name)
	}
	if err != nil {
		return nil, wrap(err)
	}
	k, err := r.workflows.of(ctx, entries[0])
	if err != nil {
		return nil, wrap(err)
	}
	return history.Write(k.workflow.Definition, entries)
}
