package disktest

import (
	"bytes"
	"path/filepath"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawl-dev/pawl/internal/journal/sqlite/vfs"
)

// layer is between SQLite and its own virtual file system. It is SQLite's default one in this process from the first
// [New] on. Files outside of the directories of disks go straight through.
var layer struct {
	once    sync.Once
	real    *sqlite3.Tsqlite3_vfs
	realPtr uintptr

	mu      sync.Mutex
	disks   map[string]*Disk    // the disks by directory
	files   map[uintptr]*handle // the open files by SQLite's file object
	methods map[uintptr]uintptr // our method tables, by the table of the real methods
}

// handle is a file that SQLite has open.
type handle struct {
	disk *Disk
	name string // a name in the disk's directory
	real *sqlite3.Tsqlite3_io_methods
}

// install makes the virtual file system that records SQLite's default one.
func install() {
	layer.disks, layer.files, layer.methods = map[string]*Disk{}, map[uintptr]*handle{}, map[uintptr]uintptr{}
	tls := libc.NewTLS()
	defer tls.Close()
	sqlite3.Xsqlite3_initialize(tls)
	layer.realPtr = sqlite3.Xsqlite3_vfs_find(tls, 0)
	layer.real = (*sqlite3.Tsqlite3_vfs)(vfs.At(layer.realPtr))
	name, err := libc.CString("pawl-disktest")
	if err != nil {
		panic(err)
	}
	p := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(*layer.real))) // never freed: SQLite keeps it
	ours := (*sqlite3.Tsqlite3_vfs)(vfs.At(p))
	*ours = *layer.real
	ours.FpNext, ours.FzName = 0, name
	ours.FxOpen = vfs.Pointer(open)
	ours.FxDelete = vfs.Pointer(remove)
	if rc := sqlite3.Xsqlite3_vfs_register(tls, p, 1); rc != sqlite3.SQLITE_OK {
		panic("SQLite refuses the virtual file system of the tests")
	}
}

// diskOf returns the disk that a path is on, and the file's name there, or nil if it is on none.
func diskOf(path uintptr) (*Disk, string) {
	if path == 0 {
		return nil, "" // a temporary file
	}
	dir, name := filepath.Split(libc.GoString(path))
	layer.mu.Lock()
	defer layer.mu.Unlock()
	return layer.disks[filepath.Clean(dir)], name
}

func handleOf(file uintptr) *handle {
	layer.mu.Lock()
	defer layer.mu.Unlock()
	return layer.files[file]
}

func open(tls *libc.TLS, _, path, file uintptr, flags int32, outFlags uintptr) int32 {
	d, name := diskOf(path)
	if d != nil {
		if rc := d.before(Open, name); rc != sqlite3.SQLITE_OK {
			return rc
		}
	}
	rc := vfs.Call[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](layer.real.FxOpen)(
		tls, layer.realPtr, path, file, flags, outFlags)
	if d == nil || rc != sqlite3.SQLITE_OK {
		return rc
	}
	if flags&sqlite3.SQLITE_OPEN_CREATE != 0 {
		d.record(event{kind: created, file: name})
	}
	methods := &(*sqlite3.Tsqlite3_file)(vfs.At(file)).FpMethods
	layer.mu.Lock()
	defer layer.mu.Unlock()
	layer.files[file] = &handle{d, name, (*sqlite3.Tsqlite3_io_methods)(vfs.At(*methods))}
	ours, ok := layer.methods[*methods]
	if !ok {
		ours = recording(tls, *methods)
		layer.methods[*methods] = ours
	}
	*methods = ours
	return rc
}

// recording returns a copy of a table of methods in which those that change or read a file's contents are ours.
func recording(tls *libc.TLS, real uintptr) uintptr {
	p := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{})))
	m := (*sqlite3.Tsqlite3_io_methods)(vfs.At(p))
	*m = *(*sqlite3.Tsqlite3_io_methods)(vfs.At(real))
	m.FxClose = vfs.Pointer(closeFile)
	m.FxRead = vfs.Pointer(read)
	m.FxWrite = vfs.Pointer(write)
	m.FxTruncate = vfs.Pointer(truncate)
	m.FxSync = vfs.Pointer(sync1)
	return p
}

func closeFile(tls *libc.TLS, file uintptr) int32 {
	layer.mu.Lock()
	h := layer.files[file]
	delete(layer.files, file)
	layer.mu.Unlock()
	return vfs.Call[func(*libc.TLS, uintptr) int32](h.real.FxClose)(tls, file)
}

func read(tls *libc.TLS, file, buffer uintptr, n int32, offset int64) int32 {
	h := handleOf(file)
	if rc := h.disk.before(Read, h.name); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return vfs.Call[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](h.real.FxRead)(tls, file, buffer, n, offset)
}

func write(tls *libc.TLS, file, buffer uintptr, n int32, offset int64) int32 {
	h := handleOf(file)
	if rc := h.disk.before(Write, h.name); rc != sqlite3.SQLITE_OK {
		return rc
	}
	rc := vfs.Call[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](h.real.FxWrite)(tls, file, buffer, n, offset)
	// It is recorded afterwards: a sync that another connection began meanwhile need not include it.
	data := unsafe.Slice((*byte)(vfs.At(buffer)), n)
	h.disk.record(event{kind: written, file: h.name, at: offset, data: bytes.Clone(data)})
	return rc
}

func truncate(tls *libc.TLS, file uintptr, size int64) int32 {
	h := handleOf(file)
	if rc := h.disk.before(Write, h.name); rc != sqlite3.SQLITE_OK {
		return rc
	}
	rc := vfs.Call[func(*libc.TLS, uintptr, int64) int32](h.real.FxTruncate)(tls, file, size)
	h.disk.record(event{kind: truncated, file: h.name, at: size})
	return rc
}

// sync1 does not touch the machine's own disk: what is durable here depends on what is recorded.
func sync1(_ *libc.TLS, file uintptr, _ int32) int32 {
	h := handleOf(file)
	if rc := h.disk.before(Sync, h.name); rc != sqlite3.SQLITE_OK {
		return rc
	}
	h.disk.record(event{kind: synced, file: h.name})
	return sqlite3.SQLITE_OK
}

func remove(tls *libc.TLS, _, path uintptr, syncDir int32) int32 {
	d, name := diskOf(path)
	rc := vfs.Call[func(*libc.TLS, uintptr, uintptr, int32) int32](layer.real.FxDelete)(
		tls, layer.realPtr, path, syncDir)
	if d != nil && rc == sqlite3.SQLITE_OK {
		d.record(event{kind: removed, file: name, durable: syncDir != 0})
	}
	return rc
}

// failures are the results that report a failed operation to SQLite.
var failures = map[Op]int32{
	Open: sqlite3.SQLITE_CANTOPEN, Read: sqlite3.SQLITE_IOERR_READ, Write: sqlite3.SQLITE_IOERR_WRITE,
	Sync: sqlite3.SQLITE_IOERR_FSYNC,
}

// before asks the test what happens to an operation.
func (d *Disk) before(op Op, name string) int32 {
	d.mu.Lock()
	fault := d.fault
	d.mu.Unlock()
	if fault == nil || fault(op, name) == nil {
		return sqlite3.SQLITE_OK
	}
	return failures[op]
}
