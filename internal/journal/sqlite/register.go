package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl/internal/journal"
)

func init() {
	journal.Register("sqlite", func(_ context.Context, name string) (journal.Journal, error) {
		path, partitions, err := journal.SplitPartitions(name)
		if err != nil {
			return nil, err
		}
		return Open(path, Options{Partitions: partitions})
	}, func(_ context.Context, name string) (journal.Journal, error) {
		path, _, err := journal.SplitPartitions(name)
		if err != nil {
			return nil, err
		}
		return OpenReadOnly(path)
	})
}
