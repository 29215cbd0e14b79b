package service

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

// TopOf returns the run that represents the family of a run: the first one of the chain of its topmost parent.
func TopOf(ctx context.Context, svc api.Service, r *api.Run) (core.RunID, error) {
	var err error
	for r.Parent != "" {
		if r, err = svc.Run(ctx, r.Parent); err != nil {
			return core.RunID{}, fmt.Errorf("the parent of the run: %w", err)
		}
	}
	if r.First != "" {
		return core.ParseRunID(r.First)
	}
	return core.ParseRunID(r.Run)
}
