package pawl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/journal"
)

// heldLook is how often Open looks whether a database that another engine holds is free.
const heldLook = 100 * time.Millisecond

// whileHeld tries to open a database until nobody else holds it, or the context ends.
func whileHeld(ctx context.Context, cfg Config, open func() error) error {
	for first := true; ; first = false {
		err := open()
		if !errors.Is(err, journal.ErrHeld) {
			return err
		}
		if first && ctx.Err() == nil {
			cfg.Log.Warn("another engine holds the database: waiting until it is gone", "error", err)
		}
		select {
		case <-ctx.Done():
			held := &api.Error{Code: api.CodeHeld, Err: err}
			if strings.HasPrefix(cfg.Database, "postgres") {
				held.Hint = "several processes share a database with pawlcluster.Open"
			}
			return fmt.Errorf("%w: %w", held, context.Cause(ctx))
		case <-time.After(heldLook):
		}
	}
}
