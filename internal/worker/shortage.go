package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// shortages are the errors of a machine that has run out of file descriptors, processes, memory, or disk space.
var shortages = []error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM, syscall.ENOSPC}

// IsShortage reports whether an error means that this machine has run out of something. The step can do nothing about
// it.
func IsShortage(err error) bool {
	return slices.ContainsFunc(shortages, func(one error) bool { return errors.Is(err, one) })
}

// ShortagePause is how long an attempt waits on average before it is given back, so that the scarce resource is not
// requested again at once.
const ShortagePause = 2 * time.Second

// Short returns the failure of an attempt that could not begin because this machine is short of something. The attempt
// has no effect on the budget: it is made again, after the pause that Short waits. The pauses of several attempts
// differ at random: if all tried again at one instant, each would take what another one needs, forever.
func Short(ctx context.Context, pause time.Duration, err error) *policy.Failure {
	select {
	case <-time.After(pause/2 + rand.N(pause)):
	case <-ctx.Done():
		return Stopped(ctx)
	}
	return &policy.Failure{
		Kind: policy.KindLost, Type: core.TypeNotBegun,
		Message: fmt.Sprintf("the machine of the worker is short of something: %v", err),
	}
}

// openAgain opens a file, and tries again for a while if this machine is short of file descriptors.
func openAgain(path string) (*os.File, error) {
	for tries := 0; ; tries++ {
		f, err := os.Open(path)
		if err == nil || !IsShortage(err) || tries == openTries {
			return f, err
		}
		time.Sleep(openPause)
	}
}

// The file of an attempt that has ended is opened again that often, with such a pause.
const (
	openTries = 50
	openPause = 200 * time.Millisecond
)
