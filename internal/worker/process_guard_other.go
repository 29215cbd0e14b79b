//go:build !unix

package worker

import (
	"errors"
	"fmt"
	"runtime"
)

// guardShell cannot be started on this system.
type guardShell struct{}

func startGuardShell(string, string, []string) (*guardShell, error) {
	return nil, fmt.Errorf("no guard on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func (s *guardShell) write(int, string) error { return errors.ErrUnsupported }

func (s *guardShell) hasEnded() bool { return true }

func (s *guardShell) close() {}
