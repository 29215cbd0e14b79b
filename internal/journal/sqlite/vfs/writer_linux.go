package vfs

import (
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	original = "unix" // SQLite's own virtual file system
	ours     = "pawl" // begins the names of ours, each over another one
)

// Writer returns the name of the virtual file system to write a database with; empty: SQLite's default one. It is the
// default one, except that writes to the log go to the system in few calls, and, over SQLite's own, that files are
// synced with fdatasync. The database must be at synchronous=FULL, see [buffer].
func Writer() string {
	if !tested() {
		return ""
	}
	tls := libc.NewTLS()
	defer tls.Close()
	if sqlite3.Xsqlite3_initialize(tls) != sqlite3.SQLITE_OK {
		return ""
	}
	standard := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if standard == 0 {
		return ""
	}
	systems.mu.Lock()
	defer systems.mu.Unlock()
	name, ok := systems.over[standard]
	if !ok {
		name = register(tls, standard)
		systems.over[standard] = name
	}
	return name
}

// systems has the names of our virtual file systems by the address of that below.
var systems = struct {
	mu   sync.Mutex
	over map[uintptr]string
}{over: map[uintptr]string{}}

// register makes SQLite know our virtual file system over another one, and returns its name, empty if it failed.
func register(tls *libc.TLS, below uintptr) string {
	f := &files{vfs: below, methods: map[tableOf]uintptr{}}
	real := (*sqlite3.Tsqlite3_vfs)(At(below))
	name := ours
	if under := libc.GoString(real.FzName); under != original {
		name = ours + "-over-" + under
	} else {
		f.syncsData = true
	}
	text, err := libc.CString(name) // never freed, like the next one: SQLite keeps them
	if err != nil {
		return ""
	}
	p := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})))
	if p == 0 {
		return ""
	}
	v := (*sqlite3.Tsqlite3_vfs)(At(p))
	*v = *real
	v.FpNext, v.FzName = 0, text
	f.bufferAt = uintptr(real.FszOsFile+7) &^ 7
	v.FszOsFile = int32(f.bufferAt + unsafe.Sizeof(buffer{}))
	f.realOpen = Call[open](v.FxOpen)
	v.FxOpen = Pointer(f.open)
	if sqlite3.Xsqlite3_vfs_register(tls, p, 0) != sqlite3.SQLITE_OK {
		return ""
	}
	return name
}

type open = func(tls *libc.TLS, vfs, path, file uintptr, flags int32, outFlags uintptr) int32

// files opens files for SQLite.
type files struct {
	vfs       uintptr // the VFS below
	realOpen  open
	syncsData bool    // the files below are SQLite's own
	bufferAt  uintptr // where SQLite's object of a file has our buffer

	mu      sync.Mutex
	methods map[tableOf]uintptr
}

// tableOf names a table of methods.
type tableOf struct {
	real uintptr // the table below
	log  bool    // the writer serves logs
}

func (f *files) open(tls *libc.TLS, _, path, file uintptr, flags int32, outFlags uintptr) int32 {
	if rc := f.realOpen(tls, f.vfs, path, file, flags, outFlags); rc != sqlite3.SQLITE_OK {
		return rc
	}
	*(*buffer)(At(file + f.bufferAt)) = buffer{}
	methods := &(*sqlite3.Tsqlite3_file)(At(file)).FpMethods
	f.mu.Lock()
	defer f.mu.Unlock()
	key := tableOf{*methods, flags&sqlite3.SQLITE_OPEN_WAL != 0}
	table, ok := f.methods[key]
	if !ok {
		if table = libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{}))); table == 0 {
			return sqlite3.SQLITE_OK // the file is used as SQLite does it
		}
		m := (*sqlite3.Tsqlite3_io_methods)(At(table))
		*m = *(*sqlite3.Tsqlite3_io_methods)(At(*methods))
		if f.syncsData {
			m.FxSync = Pointer(dataSync(Call[syncFile](m.FxSync)))
		}
		if key.log {
			gather(m, f.bufferAt)
		}
		f.methods[key] = table
	}
	*methods = table
	return sqlite3.SQLITE_OK
}
