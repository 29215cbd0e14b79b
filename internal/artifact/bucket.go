package artifact

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Object is one object of a bucket.
type Object struct {
	Key      string
	Modified time.Time
}

// Bucket keeps objects by keys, which are paths with slashes.
type Bucket interface {
	// Put stores an object, or replaces it. It is durable when Put returns. Where r fails, nothing is stored.
	Put(ctx context.Context, key string, r io.Reader, size int64) error
	// Renew makes an object as young as a new one. It returns false if the object does not exist, or has to be put
	// again for that.
	Renew(ctx context.Context, key string) (bool, error)
	// Get opens an object. Errors: fs.ErrNotExist.
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// List calls yield for the objects whose keys begin with prefix, which ends with a slash.
	List(ctx context.Context, prefix string, yield func(Object) error) error
	// RemoveOlder removes an object that is not younger than an instant. A missing object is not an error.
	RemoveOlder(ctx context.Context, key string, than time.Time) error
}

// Folder is a bucket in a folder of this machine.
type Folder struct {
	path string
	mu   sync.Mutex // no object is removed while it is renewed
}

// NewFolder returns the bucket in a folder, which is made when the first object is put.
func NewFolder(path string) *Folder { return &Folder{path: path} }

func (f *Folder) at(key string) string { return filepath.Join(f.path, filepath.FromSlash(key)) }

// Put implements Bucket. The file gets its name when it is on the disk.
func (f *Folder) Put(_ context.Context, key string, r io.Reader, _ int64) (err error) {
	to := f.at(key)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(to), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = io.Copy(file, r)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := os.Rename(file.Name(), to); err != nil {
		return err
	}
	for dir := filepath.Dir(to); ; dir = filepath.Dir(dir) { // the folders may be new, too
		if err := syncFolder(dir); err != nil || len(dir) <= len(f.path) {
			return err
		}
	}
}

func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrInvalid) {
		err = nil // a system on which folders are not synced
	}
	return errors.Join(err, dir.Close())
}

func (f *Folder) Renew(_ context.Context, key string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	err := os.Chtimes(f.at(key), now, now)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (f *Folder) Get(_ context.Context, key string) (io.ReadCloser, error) { return os.Open(f.at(key)) }

func (f *Folder) List(ctx context.Context, prefix string, yield func(Object) error) error {
	err := filepath.WalkDir(f.at(prefix), func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(f.path, at)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return yield(Object{filepath.ToSlash(rel), info.ModTime()})
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (f *Folder) RemoveOlder(_ context.Context, key string, than time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.at(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.ModTime().After(than) {
		return err
	}
	if err := os.Remove(f.at(key)); err != nil {
		return err
	}
	for dir := path.Dir(key); strings.Contains(dir, "/"); dir = path.Dir(dir) {
		if os.Remove(f.at(dir)) != nil {
			break // others are in it
		}
	}
	return nil
}
