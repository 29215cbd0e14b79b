package engine

import (
	"errors"

	"github.com/pawl-dev/pawl/internal/journal"
)

// unusable is the error of a run whose definition cannot be compiled by this process.
type unusable struct{ error }

func (u *unusable) Unwrap() error { return u.error }

// noteTemporary reports whether a run could not be read because of an error that may go away, such as a network
// failure.
//
// Then the input of that run is not in the open batch, so the batch must not be saved. The error is kept: the
// partition's memory is dropped, and everything happens again when the journal can be read.
func (p *Partition) noteTemporary(err error) bool {
	if err == nil || errors.Is(err, journal.ErrNotFound) || errors.Is(err, journal.ErrCorrupt) || permanent(err) {
		return false
	}
	if p.handling.readErr == nil {
		p.handling.readErr = err
	}
	return true
}

// unreadable reports whether a run could not be read. If it can never be read, that is logged: the run does not get
// its input, and the others go on.
func (p *Partition) unreadable(err error, what string, about ...any) bool {
	if err != nil && !p.noteTemporary(err) {
		p.cfg.Log.Error(what, append(append([]any{"id", "run-unreadable"}, about...), "error", err)...)
	}
	return err != nil
}

// ReadError returns why the open batch must not be saved; nil: it may be saved. The driver calls Failed with the
// error as soon as no other batch is on its way to the journal.
func (p *Partition) ReadError() error { return p.handling.readErr }
