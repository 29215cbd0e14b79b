package service

import (
	"context"

	"github.com/pawl-dev/pawl/internal/api"
)

// Newest reads a run by a name of it. A chain can go on after its name was looked up and before that run is read, so a
// run that has ended is only believed to be the newest of its chain if the name still means it. stands returns the id
// of what was read, and whether it has ended.
func Newest[T any](name string, read func() (T, error), stands func(T) (id string, ended bool)) (T, error) {
	for last := name; ; {
		out, err := read()
		if err != nil {
			return out, err
		}
		id, ended := stands(out)
		if !ended || id == last {
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

// Stands returns the id of a run, and whether it has ended.
func Stands(r *api.Run) (id string, ended bool) { return r.Run, r.Phase.Closed() }
