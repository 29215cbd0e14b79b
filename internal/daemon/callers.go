package daemon

import (
	"context"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/caller"
)

// callers keeps what other commands give for the steps of their runs.
type callers struct{ d *Daemon }

// Keep implements server.Callers. It tells in what the caller differs from whoever runs were carried on for that it
// resumes.
func (c callers) Keep(ctx context.Context, f caller.Form) (told caller.Told, err error) {
	name, err := c.d.cfg.Callers.Keep(f)
	if err != nil {
		return told, &api.Error{Code: api.CodeInvalid, Message: err.Error(), Err: err}
	}
	told = caller.Told{Caller: name}
	for _, run := range f.Resumes {
		top, err := c.d.topOf(ctx, run)
		if err != nil || !c.d.cfg.Carried.Has(top) {
			continue // it rests, so nobody's environment is replaced
		}
		before := c.d.cfg.Callers.Of(c.d.cfg.Carried.For(top))
		if names := caller.Differs(before, c.d.cfg.Callers.Of(name)); len(names) > 0 {
			if told.Differs == nil {
				told.Differs = map[string][]string{}
			}
			told.Differs[run] = names
		}
	}
	return told, nil
}

// Knows implements server.Callers.
func (c callers) Knows(name string) bool { return c.d.cfg.Callers.Of(name) != nil }
