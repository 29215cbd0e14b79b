// Package outbox starts runs and sends events within a transaction of the caller's own database. "The row is written"
// and "the workflow is started" then cannot part: the transaction holds both, or neither.
//
// [StartIn] and [SendIn] write a message into a table beside the caller's own tables. Once the transaction is
// committed, [Outbox.Relay] delivers the message to an engine, exactly once however often it is interrupted:
//
//	box, err := outbox.New(db, outbox.Config{Postgres: true})
//	err = box.Create(ctx)
//	go box.Relay(ctx, eng) // beside whatever else the service does
//
//	tx, err := db.BeginTx(ctx, nil)
//	_, err = tx.ExecContext(ctx, "INSERT INTO orders …")
//	err = outbox.StartIn(ctx, box, outbox.SQLTx(tx), fulfil, "order-1", order)
//	err = tx.Commit()
//
// Where the engine's journal is in the same PostgreSQL database, [Of] returns an outbox that needs no table of yours
// and no relay.
//
// In PostgreSQL the commit itself tells the relay to look, if the relay's database is opened with pgx. With SQLite the
// program calls [Outbox.Committed] after its commit. Otherwise the relay looks within [Config.Every].
package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/plugged"
)

// Outbox is a table of messages in the caller's database. The engine recognises a message by its id for as long as it
// keeps the run: let [pawl.Config.Retention] be longer than a relay may be stopped.
type Outbox struct {
	db          *sql.DB
	postgres    bool // the database is PostgreSQL, else SQLite
	table       string
	database    string      // the database that messages name, for an engine's own outbox
	turn        func() bool // reports whether this node delivers, for a node's own outbox; nil: it always does
	every       time.Duration
	codec       pawl.Codec
	maxPayload  int
	propagators []pawl.Propagator
	log         *slog.Logger
	committed   chan struct{} // holds one order to look
}

// Config configures an outbox. Zero values are useful.
type Config struct {
	Postgres bool          // the database that holds the outbox is PostgreSQL; default SQLite
	Table    string        // default pawl_outbox; may name a schema: app.outbox
	Every    time.Duration // how often Relay looks without being told; default 1s
	Codec    pawl.Codec    // the engine's; default JSON
	// MaxPayload bounds an input or an event, in bytes. Give it the engine's pawl.Config.MaxPayload, so that nothing is
	// written that the engine would refuse. Default 2 MiB, as the engine's.
	MaxPayload int
	// Propagators take what the contexts of StartIn hold along with the runs. Give it those of the engine.
	Propagators []pawl.Propagator
	Log         *slog.Logger // default discards
}

// tableName matches what can stand in a statement as it is.
var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// New returns an outbox in the caller's database. Create makes its table. A program that uses pgx gets a db from
// stdlib.OpenDBFromPool(pool).
func New(db *sql.DB, cfg Config) (*Outbox, error) {
	if cfg.Table == "" {
		cfg.Table = "pawl_outbox"
	}
	if !tableName.MatchString(cfg.Table) {
		return nil, fmt.Errorf("pawl: outbox: %q cannot be a table name: use letters, digits, _ and dots", cfg.Table)
	}
	if cfg.Every <= 0 {
		cfg.Every = time.Second
	}
	if cfg.MaxPayload < 0 {
		return nil, errors.New("pawl: outbox: Config.MaxPayload is negative: leave it out for the default")
	}
	if cfg.MaxPayload == 0 {
		cfg.MaxPayload = 2 << 20
	}
	if cfg.Codec == nil {
		cfg.Codec = pawl.JSON{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = plugged.Log(cfg.Log)
	return &Outbox{
		db: db, postgres: cfg.Postgres, table: cfg.Table, every: cfg.Every, codec: cfg.Codec, log: cfg.Log,
		maxPayload: cfg.MaxPayload, propagators: cfg.Propagators, committed: make(chan struct{}, 1),
	}, nil
}

// Schema returns the statement that makes the table, for programs that keep their own migrations.
func (o *Outbox) Schema() string {
	if o == nil {
		return ""
	}
	seq := "INTEGER PRIMARY KEY AUTOINCREMENT"
	if o.postgres {
		seq = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
	}
	return "CREATE TABLE IF NOT EXISTS " + o.table + " (seq " + seq +
		", id TEXT NOT NULL UNIQUE, message TEXT NOT NULL, created_ms BIGINT NOT NULL, failure TEXT)"
}

// Create makes the table if it does not exist. Several processes may call it at once.
func (o *Outbox) Create(ctx context.Context) error {
	if err := o.ready(ctx); err != nil {
		return err
	}
	if !o.postgres {
		_, err := o.db.ExecContext(ctx, o.Schema())
		return wrap(err)
	}
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return wrap(err)
	}
	// PostgreSQL fails a CREATE TABLE IF NOT EXISTS when two sessions run it at once and both find no table. The lock
	// makes them run it one after the other.
	_, err = tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext('pawl outbox'))")
	if err == nil {
		_, err = tx.ExecContext(ctx, o.Schema())
	}
	if err != nil {
		_ = tx.Rollback() // the server has ended the transaction already
		return wrap(err)
	}
	return wrap(tx.Commit())
}

// ready returns an error for an outbox that has no database, and for a context that is nil.
func (o *Outbox) ready(ctx context.Context) error {
	switch {
	case o == nil || o.db == nil:
		return refuse(pawl.ErrInvalid, "it has no database: give one to New")
	case ctx == nil:
		return refuse(pawl.ErrInvalid, "the context is nil: use context.Background if there is none")
	default:
		return nil
	}
}

// sql puts the table's name and the placeholders of its database into a query.
func (o *Outbox) sql(query string) string {
	query = strings.ReplaceAll(query, "{table}", o.table)
	if !o.postgres {
		return query
	}
	parts := strings.Split(query, "?")
	for i := 1; i < len(parts); i++ {
		parts[i] = "$" + strconv.Itoa(i) + parts[i]
	}
	return strings.Join(parts, "")
}

// outboxError is an error of the outbox. Its text says pawl once, although errors of the engine say it already.
type outboxError struct{ err error }

func (e *outboxError) Error() string {
	return "pawl: outbox: " + strings.TrimPrefix(e.err.Error(), "pawl: ")
}
func (e *outboxError) Unwrap() error { return e.err }

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return &outboxError{err}
}
