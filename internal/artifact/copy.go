package artifact

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
)

// CopyTo copies all artifacts to another bucket. Of each attempt the content is copied before the list, so that no list
// there is without its files. What is removed meanwhile is left out. It returns how many files the lists have.
func (s *Store) CopyTo(ctx context.Context, to Bucket) (files int, err error) {
	copied := map[string]bool{}
	err = s.bucket.List(ctx, "runs/", func(o Object) error {
		kept, err := s.read(ctx, o.Key)
		if err != nil || kept == nil {
			return err
		}
		for _, f := range kept.Files {
			if copied[f.SHA256] {
				continue
			}
			switch err := s.copyContent(ctx, to, f); {
			case errors.Is(err, fs.ErrNotExist):
				return nil // its run has just been removed
			case err != nil:
				return err
			}
			copied[f.SHA256] = true
		}
		text, err := json.Marshal(kept)
		if err != nil {
			return err
		}
		files += len(kept.Files)
		return to.Put(ctx, o.Key, bytes.NewReader(text), int64(len(text)))
	})
	return files, err
}

// copyContent copies the content of a file, and compares it with its name.
func (s *Store) copyContent(ctx context.Context, to Bucket, f File) error {
	r, err := s.content(ctx, f)
	if err != nil {
		return err
	}
	defer r.Close()
	return to.Put(ctx, contentKey(f.SHA256), checked(ctx, r, f), f.Size)
}
