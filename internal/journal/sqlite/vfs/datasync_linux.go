package vfs

import (
	"errors"

	"golang.org/x/sys/unix"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// The translated SQLite syncs files with fsync, which also makes durable when a file was changed. A commit does not
// need that. SQLite itself uses fdatasync where its own scripts build it.

// fdatasync is the call of the system. A test puts its own in its place.
var fdatasync = unix.Fdatasync

// dataSync returns the method that syncs a file. The first sync of a new file is SQLite's own: it also makes the name
// durable.
func dataSync(real syncFile) syncFile {
	return func(tls *libc.TLS, file uintptr, flags int32) int32 {
		u := (*sqlite3.TunixFile)(At(file))
		if int32(u.FctrlFlags)&sqlite3.UNIXFILE_DIRSYNC != 0 {
			return real(tls, file, flags)
		}
		for {
			err := fdatasync(int(u.Fh))
			switch {
			case err == nil:
				return sqlite3.SQLITE_OK
			case errors.Is(err, unix.EINTR):
			default: // never again: after an error the system may have forgotten what was to be written
				if no := unix.Errno(0); errors.As(err, &no) {
					u.FlastErrno = int32(no)
				}
				return sqlite3.SQLITE_IOERR_FSYNC
			}
		}
	}
}
