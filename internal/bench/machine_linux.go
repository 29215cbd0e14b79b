package bench

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
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

// machineBusy returns the processor time that all processes of the machine have used since it started.
func machineBusy() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	first, _, _ := bytes.Cut(b, []byte("\n"))
	var ticks int64
	for i, field := range bytes.Fields(first) {
		const idle, iowait, guest = 4, 5, 9 // the columns that are no work, and the first that is counted twice
		if i == 0 || i == idle || i == iowait || i >= guest {
			continue
		}
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	const tick = time.Second / 100 // the unit of the file, whatever the kernel's own
	return time.Duration(ticks) * tick
}
