package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// ErrClosed is what a closed journal answers.
var ErrClosed = errors.New("journal: closed")

// damaged is what to do about a file that is.
const damaged = "pawl doctor says what is damaged; restore a backup of the file"

// wrap says what the storage did, as one of the journal's errors with what to do about it.
func (j *Journal) wrap(op string, err error) error {
	if err == nil || isOurs(err) {
		return err
	}
	text, code := "", error(nil)
	switch result := sqlite.ErrCode(err); {
	case errors.Is(err, core.ErrNewerEntry):
		code, text = journal.ErrNewer, "open the file with the version of Pawl that wrote it, or a newer one"
	case errors.Is(err, core.ErrBroken):
		code, text = journal.ErrCorrupt, damaged
	case isFull(result):
		code, text = journal.ErrFull, "nothing was written; free some space on its file system"
	case result.ToPrimary() == sqlite.ResultCorrupt || isMissing(err):
		code, text = journal.ErrCorrupt, damaged
	case result.ToPrimary() == sqlite.ResultNotADB:
		code, text = journal.ErrNoJournal, "it is not a SQLite file, or its first bytes are damaged"
	case result.ToPrimary() == sqlite.ResultReadOnly || errors.Is(err, fs.ErrPermission):
		code, text = journal.ErrReadOnly, "make the file and its directory writable for this user"
	case result.ToPrimary() == sqlite.ResultCantOpen:
		code, text = journal.ErrReadOnly, "the file or one beside it cannot be opened: look at the permissions of its directory"
	case result.ToPrimary() == sqlite.ResultBusy:
		text = "another program holds a lock on the file; stop it or wait"
	case result.ToPrimary() == sqlite.ResultInterrupt:
		return fmt.Errorf("journal: %s %s: %w", op, j.path, context.Canceled)
	}
	switch {
	case code != nil:
		return fmt.Errorf("%w: %s %s: %w (%s)", code, op, j.path, err, text)
	case text != "":
		return fmt.Errorf("journal: %s %s: %w (%s)", op, j.path, err, text)
	default:
		return fmt.Errorf("journal: %s %s: %w", op, j.path, err)
	}
}

// isOurs reports whether the error is one of the journal's already, with what it is about and what to do.
func isOurs(err error) bool {
	for _, ours := range []error{
		journal.ErrFenced, journal.ErrFull, journal.ErrReadOnly, journal.ErrCorrupt, journal.ErrNewer, journal.ErrNoJournal, journal.ErrGone,
	} {
		if errors.Is(err, ours) {
			return true
		}
	}
	return false
}

// isMissing reports whether a statement names what the file does not have. All statements are ours, and so is the schema: its
// text in the file is damaged.
func isMissing(err error) bool {
	text := err.Error()
	return strings.Contains(text, "no such column") || strings.Contains(text, "no such table") || strings.Contains(text, "no column named")
}

// isFull reports whether the storage had no room. A write that the system refused for another reason (a quota, a limit
// on the file's size) is the same to a caller: it was rolled back, and a later one may succeed. A write that was taken
// and then failed to sync is another matter, see isLost.
func isFull(r sqlite.ResultCode) bool {
	return r.ToPrimary() == sqlite.ResultFull || r == sqlite.ResultIOErrWrite || r == sqlite.ResultIOErrSHMSize
}

// isLost reports whether the storage failed in a way after which nobody knows what is durable: the process must stop
// using it, because a sync that failed once may succeed the second time without having written anything.
func isLost(r sqlite.ResultCode) bool {
	return r.ToPrimary() == sqlite.ResultIOErr && !isFull(r)
}
