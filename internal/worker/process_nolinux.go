//go:build !linux

package worker

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// Only Linux shows the environment of other processes. On other systems an attempt is its process group and nothing
// else.

func marked([]string) []int { return nil }

func inGroup(int, int) bool { return true }

func askMarked(int, []string) {}

func killMarked(int, []string) {}

// KillLeftovers returns an error that wraps errors.ErrUnsupported: it cannot find processes on this system.
func KillLeftovers(string) ([]Leftover, error) {
	const advice = "look for them before the work is repeated"
	return nil, fmt.Errorf("worker: processes left by a killed worker cannot be found on %s; %s: %w",
		runtime.GOOS, advice, errors.ErrUnsupported)
}

// outputPipe makes a pipe whose write end is for a process.
func outputPipe() (r, w *os.File, err error) { return os.Pipe() }
