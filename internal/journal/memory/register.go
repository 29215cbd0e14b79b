package memory

import (
	"context"

	"github.com/pawl-dev/pawl/internal/journal"
)

func init() {
	journal.Register("memory", func(_ context.Context, name string) (journal.Journal, error) {
		_, partitions, err := journal.SplitPartitions(name)
		if err != nil {
			return nil, err
		}
		return NewPartitions(max(partitions, 1)), nil
	}, nil)
}
