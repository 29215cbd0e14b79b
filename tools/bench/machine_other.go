//go:build !linux

package main

import (
	"os"
	"runtime"
	"time"
)

// datasync makes the data of a file durable.
func datasync(f *os.File) error { return f.Sync() }

// resident returns the bytes of memory the Go runtime holds, which is nearly all of the process.
func resident() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}

// machineBusy returns 0: it is not known here.
func machineBusy() time.Duration { return 0 }

// residentOf returns 0: it is not known here.
func residentOf(string) int64 { return 0 }

// memoryOf returns 0: it is not known here.
func memoryOf(string) (all, files int64) { return 0, 0 }

// processorOf returns 0: it is not known here.
func processorOf(int) time.Duration { return 0 }
