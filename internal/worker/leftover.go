package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
)

// Leftover is a process that outlived the worker that started it.
type Leftover struct {
	PID     int
	Run     string
	Step    string
	Attempt int
	Command string // the start of its command line
}

// OwnerOf returns the mark for processes that run steps of a database. The next engine on that database uses it to find
// them.
func OwnerOf(database string) string {
	if path, err := filepath.Abs(database); err == nil {
		database = path
	}
	sum := sha256.Sum256([]byte(database))
	return hex.EncodeToString(sum[:8])
}

// EndLeftovers kills the processes that outlived a killed engine with this owner. An engine calls it before it
// recovers, so that the work of an old attempt is gone before the next attempt starts. On systems where such processes
// cannot be found it does nothing; the steps' own limits end them. It does nothing if the owner is empty.
func EndLeftovers(owner string) error {
	if owner == "" {
		return nil
	}
	_, err := KillLeftovers(owner)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
