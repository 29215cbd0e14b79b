package vfs

import (
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// mostBuffered is how many bytes of the log are kept back at most: as many as SQLite's own files write at once.
const mostBuffered = 128<<10 - 1

// buffer keeps back what SQLite writes to its log, until the log is synced: SQLite writes each page in two calls, and a
// commit has many pages, one after the other. It is within SQLite's object of the file, so all of it is C's memory.
//
// Nothing depends on the writes that are kept back. Other connections read the log only up to the last commit, and with
// synchronous=FULL a commit is visible to them after its sync. The connection itself reads it through the same file.
type buffer struct {
	data uintptr // memory for mostBuffered bytes; 0: none yet
	from int64   // where the bytes belong in the file
	n    int64   // how many there are
}

type (
	closeFile = func(tls *libc.TLS, file uintptr) int32
	transfer  = func(tls *libc.TLS, file, data uintptr, n int32, from int64) int32 // reads or writes
	truncate  = func(tls *libc.TLS, file uintptr, size int64) int32
	syncFile  = func(tls *libc.TLS, file uintptr, flags int32) int32
	fileSize  = func(tls *libc.TLS, file, size uintptr) int32
)

// gather changes the methods of a log so that they use the buffer, which each file has at an offset.
func gather(m *sqlite3.Tsqlite3_io_methods, at uintptr) {
	closeIt, read, write := Call[closeFile](m.FxClose), Call[transfer](m.FxRead), Call[transfer](m.FxWrite)
	cut, sync, size := Call[truncate](m.FxTruncate), Call[syncFile](m.FxSync), Call[fileSize](m.FxFileSize)
	// flush writes the data that is kept back. After an error that is not repeated: the commit fails, and SQLite writes
	// the next one to the same place.
	flush := func(tls *libc.TLS, file uintptr) int32 {
		b := (*buffer)(At(file + at))
		n := b.n
		if n == 0 {
			return sqlite3.SQLITE_OK
		}
		b.n = 0
		return write(tls, file, b.data, int32(n), b.from)
	}

	m.FxWrite = Pointer(func(tls *libc.TLS, file, data uintptr, n int32, from int64) int32 {
		b := (*buffer)(At(file + at))
		if b.n > 0 && (from != b.from+b.n || b.n+int64(n) > mostBuffered) {
			if rc := flush(tls, file); rc != sqlite3.SQLITE_OK {
				return rc
			}
		}
		if b.data == 0 {
			b.data = libc.Xmalloc(tls, mostBuffered)
		}
		if b.data == 0 || n > mostBuffered {
			return write(tls, file, data, n, from)
		}
		if b.n == 0 {
			b.from = from
		}
		copy(unsafe.Slice((*byte)(At(b.data)), mostBuffered)[b.n:], unsafe.Slice((*byte)(At(data)), n))
		b.n += int64(n)
		return sqlite3.SQLITE_OK
	})
	m.FxRead = Pointer(func(tls *libc.TLS, file, data uintptr, n int32, from int64) int32 {
		if rc := flush(tls, file); rc != sqlite3.SQLITE_OK {
			return rc
		}
		return read(tls, file, data, n, from)
	})
	m.FxTruncate = Pointer(func(tls *libc.TLS, file uintptr, to int64) int32 {
		if rc := flush(tls, file); rc != sqlite3.SQLITE_OK {
			return rc
		}
		return cut(tls, file, to)
	})
	m.FxSync = Pointer(func(tls *libc.TLS, file uintptr, flags int32) int32 {
		if rc := flush(tls, file); rc != sqlite3.SQLITE_OK {
			return rc
		}
		return sync(tls, file, flags)
	})
	m.FxFileSize = Pointer(func(tls *libc.TLS, file, to uintptr) int32 {
		if rc := flush(tls, file); rc != sqlite3.SQLITE_OK {
			return rc
		}
		return size(tls, file, to)
	})
	m.FxClose = Pointer(func(tls *libc.TLS, file uintptr) int32 {
		rc := flush(tls, file)
		b := (*buffer)(At(file + at))
		libc.Xfree(tls, b.data)
		*b = buffer{}
		if closed := closeIt(tls, file); rc == sqlite3.SQLITE_OK {
			rc = closed
		}
		return rc
	})
}
