//go:build !linux

package worker

import (
	"errors"
	"fmt"
	"runtime"
)

// Only Linux shows the environment of other processes, so here an attempt is its process group and nothing else.

func marked([]string) []int { return nil }

func askMarked(int, []string) {}

func killMarked(int, []string) {}

// KillLeftovers finds nothing on this system and says so, with an error that wraps errors.ErrUnsupported.
func KillLeftovers(string) ([]Leftover, error) {
	return nil, fmt.Errorf("worker: processes left by a killed worker cannot be found on %s; look for them before the work is repeated: %w",
		runtime.GOOS, errors.ErrUnsupported)
}
