//go:build unix

package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes the file's lock, alone or with others who share it, or reports that it is held.
func tryLock(f *os.File, shared bool) (held bool, err error) {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

func isNoSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// writable reports whether this user may write the file, without opening it: closing a file of a database drops the
// locks that SQLite holds on it elsewhere in the process.
func writable(path string) error { return unix.Access(path, unix.W_OK) }
