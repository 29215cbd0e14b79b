package engine

import (
	"errors"

	"github.com/pawl-dev/pawl/internal/journal"
)

// unusable is the error of a run whose definition cannot be compiled, by this version or in this process.
type unusable struct{ error }

func (u *unusable) Unwrap() error { return u.error }

// temporary reports whether a run that something happens to could not be read now, but perhaps later. Then nothing of
// the open batch is saved, since what happens to that run would be missing in it: the batch is dropped, and all of it
// happens again when the journal can be read.
func (p *Partition) noteTemporary(err error) bool {
	if err == nil || errors.Is(err, journal.ErrNotFound) || errors.Is(err, journal.ErrCorrupt) || permanent(err) {
		return false
	}
	if p.readErr == nil {
		p.readErr = err
	}
	return true
}

// unreadable reports whether a run that something happens to could not be read. One that never can be read stays as it
// is; the log says so, and the others go on.
func (p *Partition) unreadable(err error, what string, about ...any) bool {
	if err != nil && !p.noteTemporary(err) {
		p.cfg.Log.Error(what, append(about, "error", err)...)
	}
	return err != nil
}

// Unread returns why the open batch must not be saved: the driver calls Failed with it as soon as nothing is on its way
// to the journal. nil: it may be saved.
func (p *Partition) ReadError() error { return p.readErr }
