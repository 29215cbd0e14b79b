package vfs

import (
	"errors"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// The translated SQLite syncs files with fsync, which also makes durable when a file was changed. A commit does not
// need that. SQLite itself uses fdatasync where its own scripts build it.

const (
	original = "unix" // SQLite's own virtual file system
	ours     = "pawl" // the same, with fdatasync
)

// fdatasync is the call of the system. A test puts its own in its place.
var fdatasync = unix.Fdatasync

// Writer returns the name of the virtual file system to write a database with; empty: SQLite's default one. That is
// used where somebody else has put theirs in the place of SQLite's own.
func Writer() string {
	if !register() {
		return ""
	}
	tls := libc.NewTLS()
	defer tls.Close()
	standard := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if standard == 0 || libc.GoString((*sqlite3.Tsqlite3_vfs)(At(standard)).FzName) != original {
		return ""
	}
	return ours
}

// register makes SQLite know the virtual file system, and reports whether it does.
var register = sync.OnceValue(func() bool {
	tls := libc.NewTLS()
	defer tls.Close()
	if sqlite3.Xsqlite3_initialize(tls) != sqlite3.SQLITE_OK {
		return false
	}
	from, err := libc.CString(original)
	if err != nil {
		return false
	}
	defer libc.Xfree(tls, from)
	f := &files{vfs: sqlite3.Xsqlite3_vfs_find(tls, from), methods: map[uintptr]uintptr{}}
	if f.vfs == 0 {
		return false
	}
	name, err := libc.CString(ours) // never freed, like the next one: SQLite keeps them
	if err != nil {
		return false
	}
	p := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})))
	if p == 0 {
		return false
	}
	v := (*sqlite3.Tsqlite3_vfs)(At(p))
	*v = *(*sqlite3.Tsqlite3_vfs)(At(f.vfs))
	v.FpNext, v.FzName = 0, name
	f.realOpen = Call[open](v.FxOpen)
	v.FxOpen = Pointer(f.open)
	return sqlite3.Xsqlite3_vfs_register(tls, p, 0) == sqlite3.SQLITE_OK
})

type (
	open     = func(tls *libc.TLS, vfs, path, file uintptr, flags int32, outFlags uintptr) int32
	syncFile = func(tls *libc.TLS, file uintptr, flags int32) int32
)

// files opens files for SQLite.
type files struct {
	vfs      uintptr // SQLite's own
	realOpen open

	mu      sync.Mutex
	methods map[uintptr]uintptr // by the table of the real methods: ours
}

func (f *files) open(tls *libc.TLS, _, path, file uintptr, flags int32, outFlags uintptr) int32 {
	if rc := f.realOpen(tls, f.vfs, path, file, flags, outFlags); rc != sqlite3.SQLITE_OK {
		return rc
	}
	methods := &(*sqlite3.Tsqlite3_file)(At(file)).FpMethods
	f.mu.Lock()
	defer f.mu.Unlock()
	table, ok := f.methods[*methods]
	if !ok {
		if table = libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{}))); table == 0 {
			return sqlite3.SQLITE_OK // the file is synced as SQLite does it
		}
		m := (*sqlite3.Tsqlite3_io_methods)(At(table))
		*m = *(*sqlite3.Tsqlite3_io_methods)(At(*methods))
		m.FxSync = Pointer(dataSync(Call[syncFile](m.FxSync)))
		f.methods[*methods] = table
	}
	*methods = table
	return sqlite3.SQLITE_OK
}

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
