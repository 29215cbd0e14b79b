package artifact

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl/internal/regular"
)

// Scan returns the files below a folder that patterns match, with the hashes of their contents, and what was left out.
// The error is an *Error if another attempt cannot do better.
func Scan(
	ctx context.Context, root *os.Root, patterns []string, limits Limits,
) (files []File, odd []string, err error) {
	limits = limits.whole()
	found, err := Find("artifacts", root, patterns, limits.Files)
	if err != nil {
		return nil, nil, err
	}
	files, left := []File{}, limits.Bytes
	for _, p := range found.Paths {
		f := File{}
		if found.Links[p] {
			f, err = scanLink(root, p)
		} else {
			f, err = scan(ctx, root, p, left)
		}
		if errors.Is(err, errTooLarge) {
			err = wrong("artifacts: with %s they are larger than %d bytes; keep less", p, limits.Bytes)
		}
		if errors.Is(err, regular.ErrOdd) { // it was replaced meanwhile
			err = wrong("artifacts: %v", err)
		}
		if err != nil {
			return nil, nil, err
		}
		left -= f.Size
		files = append(files, f)
	}
	return files, found.Odd, nil
}

var errTooLarge = errors.New("the files are too large")

func scan(ctx context.Context, root *os.Root, p string, left int64) (File, error) {
	if ctx.Err() != nil {
		return File{}, context.Cause(ctx)
	}
	file, err := regular.OpenIn(root, filepath.FromSlash(p))
	if err != nil {
		return File{}, outside("artifacts", p, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return File{}, err
	}
	if info.Size() > left {
		return File{}, errTooLarge
	}
	sum := sha256.New()
	size, err := io.Copy(sum, untilDone{ctx, io.LimitReader(file, left+1)}) // the file may grow meanwhile
	if err != nil {
		return File{}, err
	}
	if size > left {
		return File{}, errTooLarge
	}
	return File{Path: p, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil)), Mode: uint32(info.Mode().Perm())}, nil
}

// untilDone is a reader that fails when its context is done.
type untilDone struct {
	context.Context
	io.Reader
}

// Read implements io.Reader.
func (r untilDone) Read(b []byte) (int, error) {
	if r.Err() != nil {
		return 0, context.Cause(r)
	}
	return r.Reader.Read(b)
}

// scanLink returns a link as git keeps it: its content is where it leads.
func scanLink(root *os.Root, p string) (File, error) {
	target, err := root.Readlink(filepath.FromSlash(p))
	if err != nil {
		return File{}, outside("artifacts", p, err)
	}
	sum := sha256.Sum256([]byte(target))
	return File{Path: p, Size: int64(len(target)), SHA256: hex.EncodeToString(sum[:]), Link: target}, nil
}

// Open opens a file below a folder, or the content of a link.
func Open(root *os.Root, f File) (io.ReadCloser, error) {
	if f.Link != "" {
		return io.NopCloser(strings.NewReader(f.Link)), nil
	}
	return regular.OpenIn(root, filepath.FromSlash(f.Path))
}

// Write writes files below a folder, at their paths. open opens the content of each, which is compared with its name.
func Write(
	ctx context.Context, folder string, files []File, open func(context.Context, File) (io.ReadCloser, error),
) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		if err := write(ctx, root, f, open); err != nil {
			return outside("artifacts", f.Path, err)
		}
	}
	return nil
}

func write(
	ctx context.Context, root *os.Root, f File, open func(context.Context, File) (io.ReadCloser, error),
) error {
	to := filepath.FromSlash(f.Path)
	if !filepath.IsLocal(to) || to == "." {
		return wrong("artifacts: %q leads out of the folder of the step", f.Path)
	}
	if f.Link != "" && !staysInside(f.Path, f.Link) {
		return wrong("artifacts: the link %q leads out of the folder of the step", f.Path)
	}
	if err := root.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	part := to + "." + rand.Text()[:8] + ".part" // items of a loop may write the same file into one folder at once
	if f.Link != "" {
		return replace(root, part, to, root.Symlink(f.Link, part))
	}
	content, err := open(ctx, f)
	if err != nil {
		return err
	}
	defer content.Close()
	mode := cmp.Or(fs.FileMode(f.Mode).Perm(), 0o666)
	out, err := root.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, checked(ctx, content, f))
	return replace(root, part, to, errors.Join(err, out.Close()))
}

// replace gives what was made its name, unless it could not be made.
func replace(root *os.Root, part, to string, err error) error {
	if err == nil {
		err = root.Rename(part, to)
	}
	if err != nil {
		_ = root.Remove(part)
	}
	return err
}
