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
)

// Scan returns the files below a folder that patterns match, with the hashes of their contents. The error is an *Error
// if another attempt cannot do better.
func Scan(ctx context.Context, root *os.Root, patterns []string, limits Limits) ([]File, error) {
	limits = limits.whole()
	paths, err := Find("artifacts", root, patterns, limits.Files)
	if err != nil {
		return nil, err
	}
	files, left := []File{}, limits.Bytes
	for _, p := range paths {
		f, err := scan(ctx, root, p, left)
		if errors.Is(err, errTooLarge) {
			err = wrong("artifacts: with %s they are larger than %d bytes; keep less", p, limits.Bytes)
		}
		if err != nil {
			return nil, err
		}
		left -= f.Size
		files = append(files, f)
	}
	return files, nil
}

var errTooLarge = errors.New("the files are too large")

func scan(ctx context.Context, root *os.Root, p string, left int64) (File, error) {
	if ctx.Err() != nil {
		return File{}, context.Cause(ctx)
	}
	file, err := root.Open(filepath.FromSlash(p))
	if err != nil {
		return File{}, outside("artifacts", p, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return File{}, err
	}
	if !info.Mode().IsRegular() {
		return File{}, wrong("artifacts: %s is not a file", p)
	}
	if info.Size() > left {
		return File{}, errTooLarge
	}
	sum := sha256.New()
	size, err := io.Copy(sum, io.LimitReader(file, left+1))
	if err != nil {
		return File{}, err
	}
	if size > left {
		return File{}, errTooLarge
	}
	return File{Path: p, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil)), Mode: uint32(info.Mode().Perm())}, nil
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
	content, err := open(ctx, f)
	if err != nil {
		return err
	}
	defer content.Close()
	if err := root.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	part := to + "." + rand.Text()[:8] + ".part" // items of a loop may write the same file into one folder at once
	mode := cmp.Or(fs.FileMode(f.Mode).Perm(), 0o666)
	out, err := root.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, checked(ctx, content, f))
	if err = errors.Join(err, out.Close()); err == nil {
		err = root.Rename(part, to)
	}
	if err != nil {
		_ = root.Remove(part)
	}
	return err
}
