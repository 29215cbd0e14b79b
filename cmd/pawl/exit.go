package main

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
)

// The exit statuses. They are a contract: scripts tell a failed run from a wrong command by them.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitTimedOut  = 124
	exitCancelled = 130
)

// statusError ends the command with a status. Its error is printed; where it is nil, everything has been said.
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

// usage says that the command was wrong: nothing was done.
func usage(format string, args ...any) error {
	return &statusError{exitUsage, fmt.Errorf(format, args...)}
}

// asUsage makes an error one of usage.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &statusError{exitUsage, err}
}

// statusOf is the table of errors and exit statuses.
func statusOf(err error) int {
	var status *statusError
	var refused *core.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return status.status
	case errors.As(err, &refused) && refused.Code == core.CodeInvalid:
		return exitUsage
	default:
		return exitFailed
	}
}

// statusOfPhase is how a run's end ends the command.
func statusOfPhase(p core.RunPhase) int {
	switch p {
	case core.RunSucceeded, core.RunContinued:
		return exitOK
	case core.RunTimedOut:
		return exitTimedOut
	case core.RunCancelled, core.RunTerminated:
		return exitCancelled
	default:
		return exitFailed
	}
}
