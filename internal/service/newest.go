package service

import (
	"context"

	"github.com/pawl-dev/pawl/internal/api"
)

// Newest reads a run by a name of it. A chain can go on after its name was looked up and before that run is read, and
// it may take a moment until the name means the run that follows: then it is read again. stands returns the id of what
// was read, and of the run that has followed it; empty: none has.
func Newest[T any](name string, read func() (T, error), stands func(T) (id, next string)) (out T, err error) {
	for range 100 { // the run that follows may have been removed
		if out, err = read(); err != nil {
			return out, err
		}
		if id, next := stands(out); id == name || next == "" {
			return out, nil
		}
	}
	return out, nil
}

// newestRun reads a run by a name of it, which may be that of a chain.
func newestRun(
	ctx context.Context, name string, read func(ctx context.Context, name string) (*api.Run, error),
) (*api.Run, error) {
	return Newest(name, func() (*api.Run, error) { return read(ctx, name) }, Stands)
}

// Stands returns the id of a run, and of the run that has followed it in its chain.
func Stands(r *api.Run) (id, next string) { return r.Run, r.Next }
