package worker

import (
	"encoding/binary"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guardTable is the guard's file, which is only in memory. This process writes to that memory, without a system call.
// What it wrote stays when it dies, since the guard has the file open. A line is one word, stored at once: the guard
// never reads a part of a number, which would be another group. Outside Linux this is not so everywhere: OpenBSD shows
// writes to memory in the file only after a call.
type guardTable struct {
	file   *os.File
	memory []byte // room for the file
	lines  int    // the lines of the file: the shell takes a system call for each byte, so it has no more than are used
}

func newGuardTable() (*guardTable, error) {
	fd, err := unix.MemfdCreate("pawl-guard", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	t := &guardTable{file: os.NewFile(uintptr(fd), "pawl-guard")}
	if err := t.reserve(os.Getpagesize()); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// reserve maps as many bytes, more than are mapped.
func (t *guardTable) reserve(size int) error {
	memory, err := unix.Mmap(int(t.file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	if t.memory != nil {
		_ = unix.Munmap(t.memory) // the file has everything that was written to it
	}
	t.memory = memory
	return nil
}

// write changes a line, or adds one. The shell stops at a line that was added and not written, since it has no end.
func (t *guardTable) write(line int, text [guardLine]byte) error {
	for ; t.lines <= line; t.lines++ {
		size := (t.lines + 1) * guardLine
		if size > len(t.memory) {
			if err := t.reserve(2 * len(t.memory)); err != nil {
				return err
			}
		}
		if err := t.file.Truncate(int64(size)); err != nil {
			return err
		}
		t.put(t.lines, guardText(""))
	}
	t.put(line, text)
	return nil
}

// put writes a line as one word. Whenever this process is killed, the guard sees the old line or the new one.
func (t *guardTable) put(line int, text [guardLine]byte) {
	word := (*uint64)(unsafe.Pointer(&t.memory[line*guardLine]))
	atomic.StoreUint64(word, binary.NativeEndian.Uint64(text[:]))
}

func (t *guardTable) close() {
	if t.memory != nil {
		_ = unix.Munmap(t.memory) // this process no longer writes
		t.memory = nil
	}
	_ = t.file.Close() // nobody reads it any longer
}
