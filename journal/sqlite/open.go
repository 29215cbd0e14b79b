// Package sqlite keeps runs in one SQLite file, for a single machine: pure Go, no server. What was acknowledged
// survives a power cut. One process at a time can open the file for its engine.
//
// Importing the package is enough for a [pawl.Config] with Database: "sqlite:shop.db". For a new file with several
// partitions, with which a program uses more processor cores, write "sqlite:shop.db?partitions=4".
package sqlite

import (
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/sqlite"
)

// ErrHeld is the error, for errors.Is, when another process or another part of this one has the file open. The text
// names that process.
var ErrHeld error = journal.ErrHeld

// Options of Open. The zero value is useful.
type Options struct {
	// Command shows other processes who holds the file. Default: the command line of this process.
	Command string
	// Partitions is how many partitions a new file has; an existing file must have as many. Default: as many as the
	// file has, 1 in a new file. The number of a file cannot be changed later.
	Partitions int
}

// Open opens the file for [pawl.Config]'s Journal and holds it until it is closed. It creates the file if there is
// none. The error is ErrHeld if the file is open elsewhere.
func Open(path string, o Options) (journal.Journal, error) {
	j, err := sqlite.Open(path, sqlite.Options{Command: o.Command, Partitions: o.Partitions})
	if err != nil {
		return nil, err
	}
	return j, nil
}
