package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl/internal/journal"
)

// An address may lead to several servers: those of a failover, one after the other, or those behind a pooler or a name.
// One of them may be an old primary that came back, or a copy of the past. So each connection is looked at when it is
// made, and each statement is carried out only by the server that was looked at last (see [storage.query]). What was
// seen before is kept by [journal.Notes].

// fence knows which server of a store may be used.
type fence struct {
	of       *storage
	notes    *journal.Notes            // what was seen of the database; all stores have the same
	admitted atomic.Pointer[admission] // the server that was looked at last; nil: none
	nameless atomic.Bool               // the server does not tell which it is
	opened   atomic.Bool               // Open has ended: the database stays the same one from now on
	trusting atomic.Int32              // at more than 0 connections are not compared: an operator looks or accepts
}

// serverText is the server that carries out the statement, and its timeline, which grows with each promotion. Both are
// in one text, so that it can be compared.
const serverText = "(SELECT c.system_identifier::text FROM pg_catalog.pg_control_system() c) || '/' ||" +
	" CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'standby'" +
	" ELSE substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) END"

// guardMark begins the error of a statement that reached another server.
const guardMark = "not the server that was seen: "

// guardText fails on any other server than that of its parameter. The statement after it in the same transaction is not
// carried out then.
const guardText = "SELECT CASE WHEN g.is = $1::text THEN 0 ELSE ('" + guardMark + "' || g.is)::int END" +
	" FROM (SELECT " + serverText + " AS is) g"

// namelessServer is what serverText gives where the server does not know these functions, as some that only speak the
// protocol of PostgreSQL. There only the rows of the partitions can be compared.
const namelessServer = "nameless"

// lookTexts read what a database shows. They are sent together, and are of one server. The first tells which.
const (
	lookServerText = "SELECT " + serverText + ", pg_catalog.current_setting('transaction_read_only')"
	lookRowsText   = "SELECT coalesce(max(value) FILTER (WHERE key = 'database'), '')," +
		" coalesce(max(value) FILTER (WHERE key = 'generation'), ''), '', '' FROM {schema}.meta" +
		" UNION ALL SELECT partition::text, epoch::text, last::text, owner FROM {schema}.partitions"
)

// lookWithin is how long a look may take: somebody may hold a lock on the tables.
const lookWithin = 5 * time.Second

// sight is what a connection shows.
type sight struct {
	server   string // as serverText has it
	readOnly bool
	tables   bool // there are Pawl's tables
	seen     journal.Seen
}

// sight reads what a connection shows. It sends one message, so a pooler gives it to one server.
func (f *fence) sight(ctx context.Context, c *pgconn.PgConn) (sight, error) {
	at := sight{server: namelessServer}
	named := lookServerText + "; "
	if f.nameless.Load() {
		named = ""
	}
	results, err := c.Exec(ctx, named+f.of.in(lookRowsText)).ReadAll()
	var said *pgconn.PgError
	if errors.As(err, &said) && named != "" && len(results) == 0 {
		if strings.HasPrefix(said.Code, "57") || strings.HasPrefix(said.Code, "53") {
			return at, err // it ends, or has no room
		}
		f.nameless.Store(true)
		return f.sight(ctx, c)
	}
	if err != nil && !isMissing(err) && !isDenied(err) {
		return at, err
	}
	if named != "" && len(results) > 0 {
		at.server, at.readOnly = string(results[0].Rows[0][0]), string(results[0].Rows[0][1]) == "on"
		results = results[1:]
	}
	if err == nil && len(results) > 0 {
		at.tables = true
		err = f.readSight(&at, results[0].Rows)
	} else {
		err = nil // there are no tables yet, or the statements that need them say so
	}
	return at, err
}

func isDenied(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.Code == insufficientPrivilege
}

// readSight reads the rows of lookRowsText. A row of a partition that another store keeps says nothing.
func (f *fence) readSight(at *sight, rows [][][]byte) (err error) {
	at.seen.Partitions = map[int]journal.Stand{}
	for n, row := range rows {
		if n == 0 {
			if at.seen.Generation, err = journal.ParseGeneration(string(row[1])); err != nil {
				return err
			}
			if f.of.id == "" {
				at.seen.Database = string(row[0])
			} else if string(row[1]) == "" { // a store that was added after the last acceptance
				at.seen.Generation = f.notes.Seen().Generation
			}
			continue
		}
		p, one := strconv.Atoi(string(row[0]))
		epoch, two := strconv.ParseUint(string(row[1]), 10, 64)
		last, three := strconv.ParseUint(string(row[2]), 10, 64)
		if err := errors.Join(one, two, three); err != nil {
			return fmt.Errorf("%w: %s has a row of partitions that is not Pawl's: %w", journal.ErrNoJournal,
				f.of.name, err)
		}
		if !isAway(original(string(row[3]))) {
			at.seen.Partitions[p] = journal.Stand{Epoch: epoch, Last: last}
		}
	}
	if system, timeline, ok := strings.Cut(at.server, "/"); ok && timeline != "standby" {
		number, err := strconv.ParseUint(timeline, 16, 64)
		if err != nil {
			return fmt.Errorf("the timeline %q of the server is not a number: %w", timeline, err)
		}
		at.seen.Primaries = map[string]journal.Primary{f.of.id: {System: system, Timeline: number}}
	}
	return nil
}

// admit looks at a connection and compares it with what was seen. A connection that it refuses is closed, and the next
// host of the address is tried.
func (f *fence) admit(ctx context.Context, c *pgconn.PgConn) error {
	known, changes := f.notes.Seen(), f.notes.Changes() // before it looks: partitions move on meanwhile
	within, cancel := context.WithTimeout(ctx, min(f.of.timeout, lookWithin))
	defer cancel()
	at, err := f.sight(within, c)
	switch {
	case err != nil:
		return err
	case at.readOnly || strings.HasSuffix(at.server, "/standby"):
		return fmt.Errorf("%w: %s: %s", journal.ErrReadOnly, f.of.name, advice[readOnlyTransaction].text)
	case at.tables && f.of.id == "" && !f.opened.Load() && known.Database != at.seen.Database:
		f.notes.Begin(at.seen.Database)
	case f.trusting.Load() > 0:
		return nil
	case at.tables:
		if err := known.Check(&at.seen); err != nil {
			return err
		}
	}
	if at.tables {
		f.notes.Found(at.seen)
	}
	f.admitted.Store(&admission{at.server, changes})
	return nil
}

// compare refuses a connection that is only for looking if it leads to a primary that went back.
func (f *fence) compare(ctx context.Context, c *pgconn.PgConn) error {
	known := f.notes.Seen()
	if known.Database == "" {
		return nil
	}
	at, err := f.sight(ctx, c)
	if err != nil || !at.tables || strings.HasSuffix(at.server, "/standby") || at.seen.Database != known.Database {
		return err
	}
	return known.Check(&at.seen)
}

// admission is the server that was looked at last.
type admission struct {
	server  string
	changes int // how many changes others had told of before
}

// current returns the server that statements may reach, or "" if a connection has to be looked at first: nobody did, or
// another node has seen another server meanwhile.
func (f *fence) current() string {
	if a := f.admitted.Load(); a != nil && a.changes == f.notes.Changes() {
		return a.server
	}
	return ""
}

// guard makes the pool look at its connections.
func (f *fence) guard(c *pgxpool.Config) {
	wanted := c.ConnConfig.ValidateConnect // target_session_attrs of the address
	c.ConnConfig.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if wanted != nil {
			if err := wanted(ctx, conn); err != nil {
				return err
			}
		}
		if f.of.readOnly {
			return f.compare(ctx, conn)
		}
		return f.admit(ctx, conn)
	}
	c.BeforeConnect = func(_ context.Context, cfg *pgx.ConnConfig) error {
		if f.of.unprepared.Load() {
			cfg.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
		return nil
	}
}

// errMoved is the error of a statement that reached another server than before, which is as good. It is sent again.
var errMoved = errors.New("another server answers")

// admitAgain looks at a connection that may lead to another server than before. One that it refuses is closed.
func (f *fence) admitAgain(ctx context.Context, c *pgx.Conn) error {
	err := f.admit(ctx, c.PgConn())
	if err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = c.Close(closing)
	}
	return err
}

// query runs a statement once and calls row for each row. It is carried out only by the server that was looked at.
func (s *storage) query(ctx context.Context, text string, args []any, row func(pgx.Rows) error) error {
	s.statements.Add(1)
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	server := s.fence.current()
	if server == "" && !s.readOnly {
		if err := s.fence.admitAgain(ctx, c.Conn()); err != nil {
			return err
		}
		server = s.fence.current()
	}
	if s.readOnly || server == "" || server == namelessServer {
		rows, err := c.Query(ctx, text, append([]any{s.mode()}, args...)...)
		if err != nil {
			return err
		}
		return eachRow(rows, row)
	}
	err = guarded(ctx, c.Conn(), server, text, args, row)
	if isGuard(err) {
		if err = s.fence.admitAgain(ctx, c.Conn()); err == nil {
			err = errMoved
		}
	}
	return err
}

// guarded runs a statement behind the guard, in one transaction and one message.
func guarded(
	ctx context.Context, c *pgx.Conn, server, text string, args []any, row func(pgx.Rows) error,
) error {
	b := &pgx.Batch{}
	b.Queue(guardText, server)
	b.Queue(text, args...)
	res := c.SendBatch(ctx, b)
	_, err := res.Exec()
	if err == nil {
		var rows pgx.Rows
		if rows, err = res.Query(); err == nil {
			err = eachRow(rows, row)
		}
	}
	// The transaction ends only now: before that nothing is certain.
	if ended := res.Close(); err == nil {
		err = ended
	}
	return err
}

func eachRow(rows pgx.Rows, row func(pgx.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// isGuard reports whether the guard has refused a statement.
func isGuard(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && strings.Contains(said.Message, guardMark)
}

// behind returns what the database lacks, if it does: a statement that should have found a partition has not.
func (f *fence) behind(ctx context.Context) error {
	c, err := f.of.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	return f.admitAgain(ctx, c.Conn())
}
