package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockAt is the offset of the locked byte: far behind the text, so that others can read the text.
const lockAt = 1 << 30

// tryLock takes the file's lock, alone or with others who share it, or reports that it is held.
func tryLock(f *os.File, shared bool) (held bool, err error) {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err = windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{Offset: lockAt})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return true, nil
	}
	return false, err
}

func isNoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

// writable reports whether this user may write the file.
func writable(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode()&0o200 == 0 {
		return os.ErrPermission
	}
	return err
}
