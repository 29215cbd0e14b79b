package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// datasync makes the data of a file durable, and its length.
func datasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

// resident returns the bytes of memory the process holds.
func resident() int64 { return residentOf("self") }

// residentOf returns the bytes of memory that a process holds, by its number.
func residentOf(pid string) int64 {
	all, _ := memoryOf(pid)
	return all
}

// memoryOf returns the bytes of memory that a process holds, by its number, and how many of them are pages of files,
// such as its code, which the system reads again when it needs their place for something else.
func memoryOf(pid string) (all, files int64) {
	b, err := os.ReadFile("/proc/" + pid + "/statm")
	if err != nil {
		return 0, 0
	}
	fields := bytes.Fields(b)
	if len(fields) < 3 {
		return 0, 0
	}
	resident, err1 := strconv.ParseInt(string(fields[1]), 10, 64)
	shared, err2 := strconv.ParseInt(string(fields[2]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0, 0
	}
	page := int64(os.Getpagesize())
	return resident * page, shared * page
}

// tick is the unit of times in /proc, whatever the kernel's own is.
const tick = time.Second / 100

// processorOf returns the processor time that another process has used.
func processorOf(pid int) time.Duration {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	const user, system = 11, 12 // counted from behind the name, which may have any character
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) <= system {
		return 0
	}
	u, err1 := strconv.ParseInt(string(fields[user]), 10, 64)
	sys, err2 := strconv.ParseInt(string(fields[system]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(u+sys) * tick
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
		const idle, iowait, guest = 4, 5, 9 // the columns that are not work, and the first that is counted twice
		if i == 0 || i == idle || i == iowait || i >= guest {
			continue
		}
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * tick
}
