package bench

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// datasync makes what was written to a file durable, its length included.
func datasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

// resident returns the bytes of memory the process holds.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
