package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// Receive keeps the list of files that an attempt on another machine has. Where contents are not here yet, it returns
// their names and keeps nothing: the worker sends them with [Store.ReceiveContent], and the list again. The error is an
// *Error if it cannot be kept.
func (s *Store) Receive(ctx context.Context, of Attempt, files []File) (missing []string, err error) {
	if len(files) > s.limits.Files {
		return nil, wrong("artifacts: there are more than %d files; keep an archive of them", s.limits.Files)
	}
	left, asked := s.limits.Bytes, map[string]bool{}
	for _, f := range files {
		switch to := filepath.FromSlash(f.Path); {
		case !filepath.IsLocal(to) || to == ".":
			return nil, wrong("artifacts: %q leads out of the folder of the step", f.Path)
		case !digest.MatchString(f.SHA256):
			return nil, wrong("artifacts: %q is not the name of a content", f.SHA256)
		case f.Size < 0 || f.Size > left:
			return nil, wrong("artifacts: with %s they are larger than %d bytes; keep less", f.Path, s.limits.Bytes)
		}
		left -= f.Size
	}
	for _, f := range files {
		if asked[f.SHA256] {
			continue
		}
		asked[f.SHA256] = true
		there, err := s.bucket.Renew(ctx, contentKey(f.SHA256))
		if err != nil {
			return nil, err
		}
		if !there {
			missing = append(missing, f.SHA256)
		}
	}
	if len(missing) > 0 {
		return missing, nil
	}
	return nil, s.putList(ctx, of, files)
}

// ReceiveContent keeps a content that a worker sends. Content is not kept if it does not match its name, is cut off, or
// is larger than all files of an attempt may be.
func (s *Store) ReceiveContent(ctx context.Context, sum string, size int64, r io.Reader) error {
	switch {
	case !digest.MatchString(sum):
		return wrong("artifacts: %q is not the name of a content", sum)
	case size < 0 || size > s.limits.Bytes:
		return wrong("artifacts: a content of %d bytes is larger than %d bytes; keep less", size, s.limits.Bytes)
	}
	err := s.bucket.Put(ctx, contentKey(sum), checked(ctx, r, File{Path: sum, Size: size, SHA256: sum}), size)
	if errors.Is(err, errOther) {
		err = wrong("%v", err)
	}
	return err
}

// Content opens a content by its name. Errors: fs.ErrNotExist.
func (s *Store) Content(ctx context.Context, sum string) (io.ReadCloser, error) {
	if !digest.MatchString(sum) {
		return nil, fmt.Errorf("artifacts: %q is not the name of a content: %w", sum, fs.ErrNotExist)
	}
	return s.content(ctx, File{Path: "the content", SHA256: sum})
}
