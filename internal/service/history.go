package service

import (
	"context"

	"github.com/pawl-dev/pawl/internal/history"
)

// History implements api.Reader.
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
	text, err := history.Write(k.workflow.Definition, entries)
	return text, wrap(err)
}
