package memory

import (
	"context"

	"github.com/pawl-dev/pawl/internal/journal"
)

func init() {
	journal.Register("memory", func(context.Context, string) (journal.Journal, error) { return New(), nil })
}
