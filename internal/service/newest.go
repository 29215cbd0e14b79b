package service

import (
	"context"

	"github.com/pawl-dev/pawl/internal/api"
)

// Newest reads a run by a name of it. A chain can go on after its name was looked up and before that run is read: then
// the name is looked up again, unless it still means that run, as where the next one was removed. stands returns the id
// of what was read, and of the run that has followed it; empty: none has.
func Newest[T any](name string, read func() (T, error), stands func(T) (id, next string)) (T, error) {
	for last := name; ; {
		out, err := read()
		if err != nil {
			return out, err
		}
		id, next := stands(out)
		if next == "" || id == last {
			return out, nil
		}
		last = id
	}
}

// newestRun reads a run by a name of it, which may be that of a chain.
func newestRun(
	ctx context.Context, name string, read func(ctx context.Context, name string) (*api.Run, error),
) (*api.Run, error) {
	return Newest(name, func() (*api.Run, error) { return read(ctx, name) }, Stands)
}

// Stands returns the id of a run, and of the run that has followed it in its chain.
func Stands(r *api.Run) (id, next string) { return r.Run, r.Next }
