package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl/internal/journal"
)

func init() {
	journal.Register("sqlite", func(_ context.Context, path string) (journal.Journal,
		error) {
		return Open(path, Options{})
	})
}
