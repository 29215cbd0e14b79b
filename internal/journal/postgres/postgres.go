package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/relay"
)

var errClosed = errors.New("journal: closed")

// storage is the journal in one schema.
type storage struct {
	place
	pool     *pgxpool.Pool
	readOnly bool
	count    int // the number of partitions
	outbox   relay.Table

	mark       atomic.Uint64 // the mark of the next statement that writes, see [storage.nextMark]
	statements atomic.Int64
	unprepared atomic.Bool // the connections are a pooler's that does not know prepared statements

	texts sync.Map // the texts of appends, by their parts

	// Fields of every store but the first one:
	first     *storage
	id        string // its name
	address   string // as the map has it
	belongsTo string // the owner that its schema names
	begun     atomic.Bool
	beginning sync.Mutex

	mu     sync.Mutex
	owned  map[int]uint64 // the epochs of the partitions that this process owns
	closed bool
}

// Open opens the schema that the address names, and creates its tables if there are none. See the package for the
// address. The context bounds the opening. Errors: journal.ErrNoJournal, ErrNewer, ErrReadOnly.
func Open(caller context.Context, dsn string) (journal.Journal, error) {
	s, err := connect(caller, dsn)
	if err != nil {
		return nil, err
	}
	within := max(s.timeout, defaultTimeout) // it may make the tables
	ctx, cancel := context.WithTimeout(caller, within)
	defer cancel()
	err = s.prepare(ctx, s.partitions)
	if err == nil {
		err = checkShape(ctx, s)
	}
	var all *stores
	if err == nil {
		all, err = s.withStores(ctx)
	}
	if err == nil {
		err = s.openOutbox(ctx)
	}
	if err != nil {
		if all != nil {
			_ = all.Close() // the stores have connections, too
		}
		s.pool.Close()
		return nil, s.wrap("open", silent(caller, ctx, within, err))
	}
	return all, nil
}

// OpenReadOnly opens the schema for looking. It changes nothing and waits for nobody. Acquire, Append and Prune return
// journal.ErrReadOnly. Errors: fs.ErrNotExist if there are no tables yet, journal.ErrNoJournal, ErrNewer.
func OpenReadOnly(ctx context.Context, dsn string) (journal.Inspected, error) {
	s, err := connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	s.readOnly = true
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	st, err := s.look(ctx)
	switch {
	case err != nil:
		err = s.wrap("open", err)
	case !st.tables:
		err = fmt.Errorf("journal: %s has no tables yet, starting a run with it creates them:"+
			" %w", s.name, fs.ErrNotExist)
	case st.version < newest:
		err = fmt.Errorf("journal: open %s: the tables are of version %d, this code reads version %d: "+
			"start a run or a server with it, which migrates them", s.name, st.version, newest)
	}
	s.count = st.partitions
	var all *stores
	if err == nil {
		all, err = s.withStores(ctx)
	}
	if err != nil {
		s.pool.Close()
		return nil, err
	}
	return all, nil
}

func connect(ctx context.Context, dsn string) (*storage, error) {
	p, err := parse(dsn)
	if err != nil {
		return nil, err
	}
	return connectTo(ctx, p)
}

func connectTo(ctx context.Context, p place) (*storage, error) {
	pool, err := pgxpool.NewWithConfig(ctx, p.pool)
	if err != nil {
		return nil, fmt.Errorf("journal: open %s: %w", p.name, err)
	}
	s := &storage{place: p, pool: pool, owned: map[int]uint64{}}
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // it never fails
	s.mark.Store(binary.LittleEndian.Uint64(seed[:]))
	return s, nil
}

// nextMark returns a number that no other statement has.
func (s *storage) nextMark() int64 { return int64(s.mark.Add(1)) }

func (s *storage) PartitionCount() int { return s.count }

// Statements returns how many statements were sent to the database. It is for benchmarks.
func (s *storage) Statements() int64 { return s.statements.Load() }

// Bytes returns how large the tables and indexes are. It is for benchmarks, and for who examines a database.
func (s *storage) Bytes(ctx context.Context) (n int64, err error) {
	err = s.read(ctx, "size", "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM"+
		" pg_catalog.pg_class c"+
		" JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'",
		[]any{s.schema}, func() {}, func(r pgx.Rows) error { return r.Scan(&n) })
	return n, err
}

// Close implements journal.Journal. It gives back the partitions that this process still owns.
func (s *storage) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	owned := s.owned
	s.owned = nil
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), min(s.timeout, 5*time.Second))
	defer cancel()
	var err error
	for partition, epoch := range owned {
		if err = s.release(ctx, partition, epoch); err != nil {
			break // the others would fail as well; their leases end on their own
		}
	}
	if s.outbox.DB != nil { // nil: opened for reading only
		err = errors.Join(err, s.outbox.DB.Close())
	}
	s.pool.Close()
	return s.wrap("close", err)
}

// usable returns an error if the journal cannot be used, or cannot be written.
func (s *storage) usable(write bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case write && s.readOnly:
		return fmt.Errorf("%w: %s is open for reading only", journal.ErrReadOnly, s.name)
	}
	return nil
}

// mode returns how pgx sends a statement.
func (s *storage) mode() pgx.QueryExecMode {
	if s.unprepared.Load() {
		return pgx.QueryExecModeCacheDescribe
	}
	return s.pool.Config().ConnConfig.DefaultQueryExecMode
}

// query runs a statement once and calls row for each row.
func (s *storage) query(ctx context.Context, text string, args []any, row func(pgx.Rows) error) error {
	s.statements.Add(1)
	rows, err := s.pool.Query(ctx, text, append([]any{s.mode()}, args...)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// read runs a statement that only reads, and again if a connection is lost. begin is called before each try, to forget
// the results of an earlier one.
func (s *storage) read(
	ctx context.Context, op, text string, args []any, begin func(), row func(pgx.Rows) error,
) error {
	if err := s.usable(false); err != nil {
		return err
	}
	err := s.again(ctx, func(ctx context.Context) error {
		begin()
		return s.query(ctx, text, args, row)
	})
	return s.wrap(op, s.unanswered(ctx, err))
}

// unanswered marks the error of something that only reads where the database cannot be reached, has given no answer, or
// has ended the connection.
func (s *storage) unanswered(caller context.Context, err error) error {
	if err == nil || caller.Err() != nil || s.classify(err) == refused {
		return err
	}
	return &unansweredError{err}
}

// patience is how long a call goes on trying while the database cannot be reached. It is enough for a broken
// connection, and short enough that callers learn of a server that is gone.
const patience = 2 * time.Second

// again calls fn until it succeeds, or fails in a way that another try would not change, or patience is over. All tries
// together may take as long as one statement.
func (s *storage) again(caller context.Context, fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(caller, s.timeout)
	defer cancel()
	return silent(caller, ctx, s.timeout, s.try(ctx, fn))
}

func (s *storage) try(ctx context.Context, fn func(ctx context.Context) error) error {
	var timer *time.Timer
	wait := time.Duration(0)
	for left := patience; ; left -= wait {
		err := fn(ctx)
		if err == nil || ctx.Err() != nil || left <= 0 {
			return err
		}
		switch s.classify(err) {
		case refused:
			return err
		case immediately:
			left -= patience / 100
			wait = 0
			continue
		case later, unknown:
		}
		wait = min(max(2*wait, 10*time.Millisecond), 200*time.Millisecond)
		if timer == nil {
			timer = time.NewTimer(wait)
			defer timer.Stop()
		} else {
			timer.Reset(wait)
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
			return err
		}
	}
}
