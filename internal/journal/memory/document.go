package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/journal"
)

func (j *Journal) PutDocuments(ctx context.Context, documents ...journal.Document) error {
	if err := j.enter(ctx, OpPutDocuments, nil); err != nil {
		return err
	}
	defer j.mu.Unlock()
	j.disk.putDocuments(documents)
	return nil
}

func (j *Journal) FindDocuments(
	ctx context.Context, from, before string, last bool, limit int,
) (out []journal.Document, err error) {
	if err := j.enter(ctx, OpFindDocuments, nil); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(j.disk.documents)), func(key string) bool {
		return key < from || key >= before
	})
	if last {
		slices.Reverse(keys)
	}
	for _, key := range keys[:min(limit, len(keys))] {
		out = append(out, journal.Document{Key: key, Value: slices.Clone(j.disk.documents[key])})
	}
	return out, nil
}

func (j *Journal) ReadDocuments(ctx context.Context, keys ...string) (out []journal.Document, err error) {
	if err := j.enter(ctx, OpReadDocuments, nil); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		if value, found := j.disk.documents[key]; found {
			out = append(out, journal.Document{Key: key, Value: slices.Clone(value)})
		}
	}
	return out, nil
}
