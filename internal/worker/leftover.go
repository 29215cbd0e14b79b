package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
)

// Leftover is a process that outlived the worker which started it.
type Leftover struct {
	PID     int
	Run     string
	Step    string
	Attempt int
	Command string // the beginning of its command line
}

// OwnerOf is the mark of the processes of a database's steps: whoever runs that database next finds them.
func OwnerOf(database string) string {
	if path, err := filepath.Abs(database); err == nil {
		database = path
	}
	sum := sha256.Sum256([]byte(database))
	return hex.EncodeToString(sum[:8])
}

// EndLeftovers ends the processes that outlived a killed engine with this owner: before anything is tried again, what was
// tried before is gone. Where a system has no way to find them, the steps' own limits end them. Without an owner there are
// none.
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
