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

// ErrClosed is returned by a closed journal.
var ErrClosed = errors.New("journal: closed")

// damaged is the advice for a damaged file.
const damaged = "pawl doctor says what is damaged; restore a backup of the file"

// wrap turns an error of SQLite into one of the journal's errors, with advice on what to do.
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
		code = journal.ErrReadOnly
		text = "the file or one next to it cannot be opened: check the permissions of its directory"
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

// isOurs reports whether the error is already one of the journal's.
func isOurs(err error) bool {
	for _, ours := range []error{
		journal.ErrFenced, journal.ErrFull, journal.ErrReadOnly, journal.ErrCorrupt, journal.ErrNewer,
		journal.ErrNoJournal, journal.ErrGone,
	} {
		if errors.Is(err, ours) {
			return true
		}
	}
	return false
}

// isMissing reports whether a statement names a table or column that the file does not have. The statements and the
// schema are both ours, so the text of the schema in the file must be damaged.
func isMissing(err error) bool {
	text := err.Error()
	return strings.Contains(text, "no such column") || strings.Contains(text, "no such table") ||
		strings.Contains(text, "no column named")
}

// isFull reports whether the storage had no room. That includes writes that the system refused because of a quota or a
// limit on the file's size: they too were rolled back, and a later write may succeed. It does not include a write that
// was accepted and then failed to sync, see isLost.
func isFull(r sqlite.ResultCode) bool {
	return r.ToPrimary() == sqlite.ResultFull || r == sqlite.ResultIOErrWrite || r == sqlite.ResultIOErrSHMSize
}

// isLost reports whether the storage failed in a way that leaves it unknown what is durable. The process must then stop
// using it: after a failed sync, a second one may report success without having written anything.
func isLost(r sqlite.ResultCode) bool {
	return r.ToPrimary() == sqlite.ResultIOErr && !isFull(r)
}
