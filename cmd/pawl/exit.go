package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/engine"
)

// The exit statuses, which the table of codes in package api has. The statuses are a contract: scripts distinguish a
// failed run from a wrong command by them.
var (
	exitFailed    = api.CodeFailed.ExitStatus()
	exitUsage     = api.CodeInvalid.ExitStatus()
	exitTimedOut  = api.CodeTimedOut.ExitStatus()
	exitCancelled = api.CodeRunCancelled.ExitStatus()
)

const exitOK = 0

// statusError ends the command with a status. Its error is printed; nil if everything was printed before.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *statusError) Unwrap() error { return e.err }

// outputGone reports whether the reader of the command's output has gone.
func outputGone(err error) bool {
	var write *fs.PathError
	return errors.As(err, &write) && write.Path == os.Stdout.Name() && errors.Is(write, syscall.EPIPE)
}

// usage marks an error of a wrong command, which did nothing.
func usage(format string, args ...any) error {
	return &statusError{exitUsage, fmt.Errorf(format, args...)}
}

// asUsage marks an error as one of usage.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &statusError{exitUsage, err}
}

// statusOf returns the exit status for an error.
func statusOf(err error) int {
	var status *statusError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return status.status
	default:
		return engine.CodeOf(err).ExitStatus()
	}
}

// statusOfPhase returns the exit status for a run with this phase.
func statusOfPhase(p api.RunPhase) int {
	if code := p.Code(); code != "" {
		return code.ExitStatus()
	}
	return exitOK
}
