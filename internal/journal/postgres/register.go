package postgres

import (
	"context"

	"github.com/pawl-dev/pawl/internal/journal"
)

func init() {
	for _, scheme := range []string{"postgres", "postgresql"} {
		journal.Register(scheme, func(ctx context.Context, rest string) (journal.Journal, error) {
			return Open(ctx, scheme+":"+rest)
		}, func(ctx context.Context, rest string) (journal.Journal, error) {
			return OpenReadOnly(ctx, scheme+":"+rest)
		})
	}
}
