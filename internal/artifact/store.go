package artifact

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of one attempt. Zero values are the defaults.
type Limits struct {
	Files int   // default: 10000
	Bytes int64 // the size of all files together; default: 2 GiB
}

const (
	defaultFiles = 10_000
	defaultBytes = 2 << 30
)

// File is a file that was kept.
type File struct {
	Path   string `json:"path"` // relative, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Mode   uint32 `json:"mode,omitempty"` // the permissions; 0: those of a new file
	Link   string `json:"link,omitempty"` // target of a symbolic link, which is its content, too; empty: it is a file
}

// Attempt names the attempt of a step, and its run.
type Attempt struct {
	Run     string `json:"run"`
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
}

// Kept are the files of an attempt.
type Kept struct {
	Attempt

	Files []File `json:"files"`
}

// Error is an error that another attempt would have, too: a pattern without a file, too many bytes, a path out of the
// folder.
type Error struct{ msg string }

func (e *Error) Error() string { return e.msg }

// Wrong makes an error one that another attempt would have, too.
func Wrong(err error) *Error { return &Error{err.Error()} }

func wrong(format string, args ...any) *Error { return &Error{fmt.Sprintf(format, args...)} }

// Store keeps files.
type Store struct {
	bucket Bucket
	limits Limits
}

// New returns the store in a bucket.
func New(b Bucket, limits Limits) *Store {
	return &Store{b, limits.whole()}
}

// whole returns the limits with their defaults.
func (l Limits) whole() Limits {
	return Limits{cmp.Or(l.Files, defaultFiles), cmp.Or(l.Bytes, defaultBytes)}
}

// Claim reserves the bucket for one database. What runs of another one have kept there would be removed, since this one
// does not know them.
func (s *Store) Claim(ctx context.Context, database string) error {
	const key = "database"
	r, err := s.bucket.Get(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return s.bucket.Put(ctx, key, strings.NewReader(database), int64(len(database)))
	}
	if err != nil {
		return err
	}
	defer r.Close()
	owner, err := io.ReadAll(io.LimitReader(r, 4096))
	if err == nil && string(owner) != database {
		err = fmt.Errorf("the artifacts there belong to another database (%s, and this is %s): choose another prefix; "+
			"if the database was moved, remove the object %q below the prefix", owner, database, key)
	}
	return err
}

// digest is the form of a content's name.
var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

func contentKey(sum string) string { return "content/" + sum[:2] + "/" + sum }

func listKey(a Attempt) string {
	return "runs/" + a.Run + "/" + url.PathEscape(a.Step) + "." + strconv.Itoa(a.Attempt) + ".json"
}

// Keep keeps the files of an attempt below a folder that patterns match. A pattern that matches a folder means all
// files in it. What is left out is told beside them. The error is an *Error if another attempt cannot do better.
func (s *Store) Keep(
	ctx context.Context, folder string, patterns []string, of Attempt,
) (files []File, odd []string, err error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	if files, odd, err = Scan(ctx, root, patterns, s.limits); err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		if err := s.keep(ctx, root, f); err != nil {
			return nil, nil, err
		}
	}
	return files, odd, s.putList(ctx, of, files)
}

// keep keeps the content of one file.
func (s *Store) keep(ctx context.Context, root *os.Root, f File) error {
	if there, err := s.bucket.Renew(ctx, contentKey(f.SHA256)); there || err != nil {
		return err
	}
	file, err := Open(root, f)
	if err != nil {
		return outside("artifacts", f.Path, err)
	}
	defer file.Close()
	err = s.bucket.Put(ctx, contentKey(f.SHA256), checked(ctx, file, f), f.Size)
	if errors.Is(err, errOther) {
		return fmt.Errorf("artifacts: %s was changed while it was read, by another run in the same folder or a "+
			"process that goes on: write a file of another name, and rename it when it is whole", f.Path)
	}
	return err
}

func (s *Store) putList(ctx context.Context, of Attempt, files []File) error {
	text, err := json.Marshal(Kept{of, files})
	if err != nil {
		return err
	}
	return s.bucket.Put(ctx, listKey(of), bytes.NewReader(text), int64(len(text)))
}

// checkedReader fails at the end of content that does not match its name.
type checkedReader struct {
	ctx  context.Context
	r    io.Reader
	sum  hash.Hash
	file File
}

var errOther = errors.New("not the one that was kept")

func checked(ctx context.Context, r io.Reader, f File) io.Reader {
	return &checkedReader{ctx, io.LimitReader(r, f.Size+1), sha256.New(), f}
}

func (c *checkedReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.r.Read(b)
	c.sum.Write(b[:n])
	if errors.Is(err, io.EOF) && hex.EncodeToString(c.sum.Sum(nil)) != c.file.SHA256 {
		return n, fmt.Errorf("artifacts: the content of %s is %w (sha256 %s)", c.file.Path, errOther, c.file.SHA256)
	}
	return n, err
}

// Take writes files that were kept below a folder, at their paths.
func (s *Store) Take(ctx context.Context, folder string, files []File) error {
	return Write(ctx, folder, files, s.content)
}

func (s *Store) content(ctx context.Context, f File) (io.ReadCloser, error) {
	if !digest.MatchString(f.SHA256) {
		return nil, wrong("artifacts: %q is not the name of a content", f.SHA256)
	}
	r, err := s.bucket.Get(ctx, contentKey(f.SHA256))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s (sha256 %s) is not kept here: it was kept on another machine, or its run was "+
			"removed: %w", f.Path, f.SHA256, fs.ErrNotExist)
	}
	return r, err
}

// Open opens the content of a file that a run has. Errors: fs.ErrNotExist.
func (s *Store) Open(ctx context.Context, run, sum string) (File, io.ReadCloser, error) {
	kept, err := s.List(ctx, run)
	if err != nil {
		return File{}, nil, err
	}
	for _, k := range kept {
		for _, f := range k.Files {
			if f.SHA256 == sum {
				r, err := s.content(ctx, f)
				return f, r, err
			}
		}
	}
	return File{}, nil, fmt.Errorf("the run has no artifact with sha256 %s: %w", sum, fs.ErrNotExist)
}

// List returns the files that attempts of a run have kept, by step and attempt.
func (s *Store) List(ctx context.Context, run string) ([]Kept, error) {
	var all []Kept
	err := s.bucket.List(ctx, "runs/"+run+"/", func(o Object) error {
		k, err := s.read(ctx, o.Key)
		if err == nil && k != nil {
			all = append(all, *k)
		}
		return err
	})
	slices.SortFunc(all, func(a, b Kept) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Attempt.Attempt, b.Attempt.Attempt))
	})
	return all, err
}

// read reads a list. Nil if it was removed meanwhile, or is not one.
func (s *Store) read(ctx context.Context, key string) (*Kept, error) {
	if path.Ext(key) != ".json" {
		return nil, nil
	}
	r, err := s.bucket.Get(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	k := &Kept{}
	if err := json.NewDecoder(r).Decode(k); err != nil {
		return nil, fmt.Errorf("artifacts: the list %s: %w", key, err)
	}
	return k, nil
}

// youngest is how long content is kept that no run refers to: an attempt that keeps it has not written its list yet.
const youngest = time.Hour

// Sweep removes the files of removed runs, and content to which no other run refers. It returns how many runs that
// were.
func (s *Store) Sweep(ctx context.Context, now time.Time, gone func(run string) (bool, error)) (int, error) {
	lists := map[string][]string{}
	err := s.bucket.List(ctx, "runs/", func(o Object) error {
		if parts := strings.Split(o.Key, "/"); len(parts) == 3 {
			lists[parts[1]] = append(lists[parts[1]], o.Key)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	n := 0
	for run, keys := range lists {
		if is, err := gone(run); err != nil || !is {
			if err != nil {
				return n, err
			}
			continue
		}
		for _, key := range keys {
			if err := s.bucket.RemoveOlder(ctx, key, now); err != nil {
				return n, err
			}
		}
		delete(lists, run)
		n++
	}
	if n == 0 {
		return 0, nil
	}
	return n, s.sweepContent(ctx, now.Add(-youngest), lists)
}

// sweepContent removes content that is not in the lists.
func (s *Store) sweepContent(ctx context.Context, before time.Time, lists map[string][]string) error {
	used := map[string]bool{}
	for _, keys := range lists {
		for _, key := range keys {
			k, err := s.read(ctx, key)
			if err != nil {
				return err // nobody knows what it refers to
			}
			if k == nil {
				continue
			}
			for _, f := range k.Files {
				used[contentKey(f.SHA256)] = true
			}
		}
	}
	return s.bucket.List(ctx, "content/", func(o Object) error {
		if used[o.Key] || o.Modified.After(before) {
			return nil
		}
		return s.bucket.RemoveOlder(ctx, o.Key, before)
	})
}
