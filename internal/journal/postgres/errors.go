package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Codes of PostgreSQL, see the appendix "PostgreSQL Error Codes" of its manual.
const (
	tooManyConnections    = "53300"
	diskFull              = "53100"
	readOnlyTransaction   = "25006"
	insufficientPrivilege = "42501"
	undefinedTable        = "42P01"
	undefinedColumn       = "42703"
	undefinedSchema       = "3F000"
	undefinedDatabase     = "3D000"
	wrongPassword         = "28P01"
	notAllowed            = "28000"
	dataCorrupted         = "XX001"
	indexCorrupted        = "XX002"
	completionUnknown     = "40003"
	noSuchStatement       = "26000"
	statementExists       = "42P05"
	uniqueViolation       = "23505"
	queryCanceled         = "57014"
	unknownSetting        = "42704" // a connection's setting is unknown
	wrongSetting          = "22023"
)

// outcome is the result of a failed try.
type outcome uint8

const (
	refused     outcome = iota // the database has refused it, and nothing of the statement was done
	immediately                // nothing was done, and another try may succeed at once
	later                      // nothing was done; the database cannot be reached or takes nothing now
	unknown                    // it is unknown whether the statement was carried out
)

// classify returns what an error of a statement means. Where the server answers with an error of the class ERROR, it
// has rolled back. If it ends the connection, the statement before may have been committed.
func (s *storage) classify(err error) outcome {
	var said *pgconn.PgError
	var connecting *pgconn.ConnectError
	switch {
	case errors.Is(err, errMoved):
		return immediately
	case errors.Is(err, journal.ErrBehind):
		return later // the address may lead to the right server again
	case errors.As(err, &connecting):
		if errors.As(err, &said) && isRefusal(said.Code) {
			return refused
		}
		return later
	case errors.As(err, &said):
		return s.classifyCode(said)
	case isOurs(err), errors.Is(err, core.ErrBroken), errors.Is(err, core.ErrNewerEntry): // there was an answer
		return refused
	case pgconn.SafeToRetry(err):
		return later
	default:
		return unknown
	}
}

func (s *storage) classifyCode(said *pgconn.PgError) outcome {
	switch {
	case said.Code == noSuchStatement || said.Code == statementExists:
		// A pooler gave the connection to somebody else between two statements. New connections prepare none.
		if !s.unprepared.Swap(true) {
			s.pool.Reset()
		}
		return immediately
	case said.Code == completionUnknown:
		return unknown
	case strings.HasPrefix(said.Code, "40"): // a deadlock, or a conflict with another transaction
		return immediately
	case strings.HasPrefix(said.Code, "57P") || strings.HasPrefix(said.Code, "08") || said.Severity != "ERROR":
		return unknown // the server or the pooler ends the connection
	default:
		return refused
	}
}

// isRefusal reports whether the database would give the same answer again.
func isRefusal(code string) bool {
	switch code {
	case undefinedDatabase, wrongPassword, notAllowed, insufficientPrivilege, readOnlyTransaction, unknownSetting,
		wrongSetting:
		return true
	}
	return false
}

// isMissing reports whether a statement names a table or column that is not there.
func isMissing(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) &&
		(said.Code == undefinedTable || said.Code == undefinedColumn || said.Code == undefinedSchema)
}

// advice explains what an error of the database means for the journal, and what to do about it.
var advice = map[string]struct {
	err  error
	text string
}{
	diskFull:            {journal.ErrFull, "nothing was written; free some space on the database's server"},
	readOnlyTransaction: {journal.ErrReadOnly, "it is a standby, or was set read-only: name the primary"},
	insufficientPrivilege: {journal.ErrReadOnly, "grant the user the rights on the schema and its tables; " +
		"to create them, that to create schemas in the database"},
	undefinedTable:  {journal.ErrGone, "the tables were dropped while they were in use; restore a backup"},
	undefinedSchema: {journal.ErrGone, "the schema was dropped while it was in use; restore a backup"},
	undefinedColumn: {journal.ErrNoJournal, "a table was changed by hand"},
	dataCorrupted:   {journal.ErrCorrupt, "look at the log of the database's server; restore a backup"},
	indexCorrupted:  {journal.ErrCorrupt, "look at the log of the database's server; rebuild the index"},
	tooManyConnections: {nil, "raise max_connections of the server, or lower pool_max_conns; or raise the " +
		"user's connection limit"},
	undefinedDatabase: {nil, "create the database, or correct its name"},
	wrongPassword:     {nil, "correct the user or the password"},
	notAllowed:        {nil, "the server does not let this user in: see its pg_hba.conf"},
	queryCanceled:     {nil, "the statement took longer than the server allows: raise its statement_timeout"},
	unknownSetting:    {nil, "correct the settings at the end of the address"},
	wrongSetting:      {nil, "correct the settings at the end of the address"},
}

// wrap turns an error of the database into one of the journal's errors, with advice on what to do.
func (s *storage) wrap(op string, err error) error {
	var behind *journal.BehindError
	if errors.As(err, &behind) {
		return fmt.Errorf("%s %s: %w", op, s.name, behind)
	}
	var said *pgconn.PgError
	var connecting *pgconn.ConnectError
	switch {
	case errors.As(err, &connecting) && errors.Is(err, journal.ErrReadOnly):
		return fmt.Errorf("%w: %s %s: %s", journal.ErrReadOnly, op, s.name, advice[readOnlyTransaction].text)
	case err == nil, isOurs(err):
		return err
	case errors.Is(err, core.ErrNewerEntry):
		return fmt.Errorf("%w: %s %s: %w (use the version of Pawl that wrote it, or a newer one)", journal.ErrNewer, op,
			s.name, err)
	case errors.Is(err, core.ErrBroken):
		return fmt.Errorf("%w: %s %s: %w (pawl doctor says what is damaged; restore a backup)", journal.ErrCorrupt, op,
			s.name, err)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("journal: %s %s: %w", op, s.name, context.Canceled)
	case errors.As(err, &said):
		if a, ok := advice[said.Code]; ok && a.err != nil {
			return fmt.Errorf("%w: %s %s: %w (%s)", a.err, op, s.name, err, a.text)
		} else if ok {
			return fmt.Errorf("journal: %s %s: %w (%s)", op, s.name, err, a.text)
		}
	case errors.As(err, &connecting) && strings.Contains(err.Error(), "tls error"): // it has no type
		return fmt.Errorf("journal: %s %s: %w (see to TLS on the server, or correct sslmode and the certificates)",
			op, s.name, err)
	case errors.As(err, &connecting):
		return fmt.Errorf("journal: %s %s: %w (no server answers there: start it, or correct the host and the port)",
			op, s.name, err)
	}
	return fmt.Errorf("journal: %s %s: %w", op, s.name, err)
}

// silentError is the error of a statement that has got no answer in time. It is not the error of a caller who has gone.
type silentError struct {
	within time.Duration
	err    error
}

func (e *silentError) Error() string {
	return fmt.Sprintf("the database has not answered within %s: %v (is the way to it cut, is it overloaded, or does "+
		"somebody hold locks? statement_timeout= of the address says how long to wait)", e.within, e.err)
}

// silent returns a [silentError] if an error is that of a context which ended on its own, and not with its caller.
func silent(caller, own context.Context, within time.Duration, err error) error {
	var said *pgconn.PgError
	var before *silentError
	if err == nil || own.Err() == nil || caller.Err() != nil || isOurs(err) || errors.As(err, &said) ||
		errors.As(err, &before) {
		return err
	}
	return &silentError{within, err}
}

// unansweredError is the error of a read without an answer.
type unansweredError struct{ err error }

func (e *unansweredError) Error() string        { return e.err.Error() }
func (e *unansweredError) Unwrap() error        { return e.err }
func (e *unansweredError) Is(target error) bool { return target == journal.ErrNoAnswer }

// isOurs reports whether the error is already one of the journal's.
func isOurs(err error) bool {
	for _, ours := range []error{
		journal.ErrFenced, journal.ErrFull, journal.ErrReadOnly, journal.ErrCorrupt, journal.ErrNewer, journal.ErrHeld,
		journal.ErrNoJournal, journal.ErrGone, journal.ErrNotFound, errClosed, pgx.ErrNoRows,
	} {
		if errors.Is(err, ours) {
			return true
		}
	}
	return false
}
