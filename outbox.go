package pawl

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/engine"
)

// Dialect is the SQL dialect of an outbox's database.
type Dialect uint8

// The dialects.
const (
	SQLite Dialect = iota
	Postgres
)

// Outbox lets a caller start runs and send events within a transaction of its own database, so that "row written" and
// "workflow started" cannot part: both are in the transaction, or neither. [Outbox.Relay] hands them to an engine, each
// exactly once however often it is interrupted. What it repeats is known by its id as long as the engine keeps the run: let
// [Config.Retention] be longer than a relay may stand still.
type Outbox struct {
	db      *sql.DB
	dialect Dialect
	table   string
	every   time.Duration
	codec   Codec
	log     *slog.Logger
}

// OutboxConfig configures an outbox. Zero values are useful.
type OutboxConfig struct {
	Dialect Dialect       // default SQLite
	Table   string        // default pawl_outbox
	Every   time.Duration // how often Relay looks; default 1s
	Codec   Codec         // the engine's; default JSON
	Log     *slog.Logger  // default discards
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// NewOutbox returns an outbox in the caller's database. Create makes its table. Those who use pgx have a db for it in
// stdlib.OpenDBFromPool(pool).
func NewOutbox(db *sql.DB, cfg OutboxConfig) (*Outbox, error) {
	if cfg.Table == "" {
		cfg.Table = "pawl_outbox"
	}
	if !plainName.MatchString(cfg.Table) {
		return nil, fmt.Errorf("pawl: outbox: %q is no table name", cfg.Table)
	}
	if cfg.Every <= 0 {
		cfg.Every = time.Second
	}
	if cfg.Codec == nil {
		cfg.Codec = JSON{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Outbox{db: db, dialect: cfg.Dialect, table: cfg.Table, every: cfg.Every, codec: cfg.Codec, log: cfg.Log}, nil
}

// Schema is the statement that makes the outbox's table, for those who keep migrations.
func (o *Outbox) Schema() string {
	seq := "INTEGER PRIMARY KEY AUTOINCREMENT"
	if o.dialect == Postgres {
		seq = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
	}
	return "CREATE TABLE IF NOT EXISTS " + o.table + " (seq " + seq +
		", id TEXT NOT NULL UNIQUE, message TEXT NOT NULL, created_ms BIGINT NOT NULL, failure TEXT)"
}

// Create makes the outbox's table where there is none.
func (o *Outbox) Create(ctx context.Context) error {
	if o.dialect != Postgres {
		_, err := o.db.ExecContext(ctx, o.Schema())
		return wrap("pawl: outbox", err)
	}
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return wrap("pawl: outbox", err)
	}
	// PostgreSQL's IF NOT EXISTS fails where two processes that start together both find no table: one after the other.
	_, err = tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext('pawl outbox'))")
	if err == nil {
		_, err = tx.ExecContext(ctx, o.Schema())
	}
	if err != nil {
		_ = tx.Rollback() // the server did it already
		return wrap("pawl: outbox", err)
	}
	return wrap("pawl: outbox", tx.Commit())
}

// Tx executes a statement in the caller's transaction; see [SQLTx] and [PgxTx].
type Tx func(ctx context.Context, query string, args ...any) error

// SQLTx is a transaction of database/sql, or anything that executes like it.
func SQLTx(tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
},
) Tx {
	return func(ctx context.Context, query string, args ...any) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	}
}

// PgxTx is a transaction of pgx (pgx.Tx), or anything that executes like it. This package imports no driver.
func PgxTx[Tag any](tx interface {
	Exec(ctx context.Context, query string, args ...any) (Tag, error)
},
) Tx {
	return func(ctx context.Context, query string, args ...any) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	}
}

// message is what a row of the outbox asks for.
type message struct {
	Start *StartRequest `json:"start,omitempty"`
	Run   string        `json:"run,omitempty"`
	Event string        `json:"event,omitempty"`
	Body  []byte        `json:"body,omitempty"`
}

// StartIn starts a run when the caller's transaction commits. The workflow must be known to the engine that relays.
func StartIn[In, Out any](ctx context.Context, o *Outbox, tx Tx, w *Workflow[In, Out], id string, in In, opts ...StartOption) error {
	if w.def.err != nil {
		return w.def.err
	}
	input, err := encode(w.def.codec(o.codec), "the input of workflow "+w.def.name, in)
	if err != nil {
		return err
	}
	req := StartRequest{Workflow: w.def.name, ID: id, Input: input}
	for _, opt := range opts {
		opt(&req)
	}
	return o.write(ctx, tx, message{Start: &req})
}

// SendIn sends an event when the caller's transaction commits.
func SendIn(ctx context.Context, o *Outbox, tx Tx, run, event string, payload any) error {
	body, err := encode(o.codec, "the payload of event "+event, payload)
	if err != nil {
		return err
	}
	return o.write(ctx, tx, message{Run: run, Event: event, Body: body})
}

func (o *Outbox) write(ctx context.Context, tx Tx, m message) error {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return fmt.Errorf("pawl: outbox: %w", err)
	}
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("pawl: outbox: %w", err)
	}
	query := o.sql("INSERT INTO {table} (id, message, created_ms) VALUES (?, ?, ?)")
	return wrap("pawl: outbox", tx(ctx, query, hex.EncodeToString(id[:]), string(text), time.Now().UnixMilli()))
}

// sql puts the table's name and the dialect's placeholders into a query.
func (o *Outbox) sql(query string) string {
	query = strings.ReplaceAll(query, "{table}", o.table)
	if o.dialect != Postgres {
		return query
	}
	var b strings.Builder
	n := 0
	for _, r := range query {
		if r != '?' {
			b.WriteRune(r)
			continue
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
	}
	return b.String()
}

// Relay hands what is committed to the client, in order, until ctx is done. What cannot be delivered ever (the workflow id is
// taken by another run, the run has ended or takes no more events) stays in the table with the reason, and the log says so. Several may run.
func (o *Outbox) Relay(ctx context.Context, c Client) error {
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	for {
		more, err := o.RelayOnce(ctx, c)
		if err != nil && ctx.Err() == nil {
			o.log.Warn("the outbox cannot be relayed at present", "error", err)
		}
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// relayPage is how many rows are read at once.
const relayPage = 100

type outboxRow struct {
	seq  int64
	id   string
	text string
}

// RelayOnce hands over a page of what is committed now, and reports whether there may be more.
func (o *Outbox) RelayOnce(ctx context.Context, c Client) (more bool, err error) {
	rows, err := o.page(ctx)
	if err != nil {
		return false, wrap("pawl: outbox", err)
	}
	for _, row := range rows {
		err := o.deliver(ctx, c, row)
		var final *undeliverable
		switch {
		case err == nil:
			_, err = o.db.ExecContext(ctx, o.sql("DELETE FROM {table} WHERE seq = ?"), row.seq)
		case errors.As(err, &final):
			o.log.Error("a message of the outbox cannot be delivered and stays there", "seq", row.seq, "error", err)
			_, err = o.db.ExecContext(ctx, o.sql("UPDATE {table} SET failure = ? WHERE seq = ?"), err.Error(), row.seq)
		}
		if err != nil {
			return false, wrap("pawl: outbox", err)
		}
	}
	return len(rows) == relayPage, nil
}

func (o *Outbox) page(ctx context.Context) (out []outboxRow, err error) {
	rows, err := o.db.QueryContext(ctx, o.sql("SELECT seq, id, message FROM {table} WHERE failure IS NULL ORDER BY seq LIMIT ?"), relayPage)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r outboxRow
		if err := rows.Scan(&r.seq, &r.id, &r.text); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// undeliverable is the error of a message that no further try would deliver.
type undeliverable struct{ error }

func (u *undeliverable) Unwrap() error { return u.error }

// deliver hands one message over. Its id makes a repetition harmless.
func (o *Outbox) deliver(ctx context.Context, c Client, row outboxRow) error {
	var m message
	if err := json.Unmarshal([]byte(row.text), &m); err != nil {
		return &undeliverable{err}
	}
	var err error
	if m.Start != nil {
		req := *m.Start
		if req.Key == "" {
			req.Key = "outbox:" + row.id
		}
		_, err = c.StartRun(ctx, req)
	} else {
		err = c.SendEvent(ctx, m.Run, Event{Name: m.Event, ID: "outbox:" + row.id, Payload: m.Body})
	}
	for _, final := range []error{ErrConflict, ErrNotFound, ErrRunClosed, ErrTooLarge, ErrFull} {
		if errors.Is(err, final) {
			return &undeliverable{err}
		}
	}
	var own *engine.Error
	if errors.As(err, &own) && own.Code == engine.CodeInvalid {
		return &undeliverable{err}
	}
	return err
}
