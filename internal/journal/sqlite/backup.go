package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"zombiezen.com/go/sqlite"
)

// Backup copies a database to a file that must not exist, as it is at one moment, also while a process writes it. It
// returns when the copy is durable.
func Backup(ctx context.Context, from, to string) error {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("journal: %s exists already: choose another name", to)
	}
	j, err := OpenReadOnly(from)
	if err != nil {
		return err
	}
	defer func() { _ = j.Close() }() // it only read
	part := to + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600) // it is as private as the database
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("journal: %s is there: another backup is being made, or one was interrupted; if none is, "+
			"remove it", part)
	}
	if err != nil {
		return fmt.Errorf("journal: backup: %w", err)
	}
	err = j.read(ctx, func(c *conn) error { return copyPages(c.Conn, part) })
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(part, to)
	}
	if err != nil {
		return errors.Join(j.wrap("backup", err), os.Remove(part))
	}
	return syncDir(filepath.Dir(to))
}

// copyPages copies all pages of one snapshot. Who writes the database meanwhile is not held up.
func copyPages(from *sqlite.Conn, to string) error {
	dst, err := sqlite.OpenConn(to, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	b, err := sqlite.NewBackup(dst, "main", from, "main")
	if err != nil {
		return errors.Join(err, dst.Close())
	}
	more, err := b.Step(-1)
	if err == nil && more {
		err = errors.New("the copy is not complete")
	}
	return errors.Join(err, b.Close(), dst.Close())
}

// syncDir makes the names in a directory durable. Windows does that on its own, and cannot be asked for it.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closed := d.Close(); err == nil {
		err = closed
	}
	return err
}
