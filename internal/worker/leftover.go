package worker

import (
	"context"
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
	Command string // the beginning of its command line
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

// EndLeftovers kills the processes and containers that outlived a killed engine with the owner of cfg. An engine calls
// it before it recovers, so that the work of an old attempt is gone before the next attempt starts. On systems where
// such processes cannot be found it leaves them; the steps' own limits end them. If the program for containers does not
// answer, it logs that, and the first attempt in a container tries again. It does nothing if the owner is empty.
func EndLeftovers(cfg ExecConfig) error {
	if cfg.Owner == "" {
		return nil
	}
	if err := EndContainers(context.Background(), cfg); err != nil && cfg.Log != nil {
		cfg.Log.Warn("containers of an earlier process may still run; steps in containers wait until they are ended",
			"error", err)
	}
	_, err := KillLeftovers(cfg.Owner)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
