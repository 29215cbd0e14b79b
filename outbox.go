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
	"sync"
	"time"
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

// Relay hands what is committed to the client until ctx is done: what is for one workflow id in order, the rest at once. What
// cannot be delivered ever (the workflow id is taken by another run, the run has ended or takes no more events) stays in the
// table with the reason, and the log says so. What cannot be delivered at present is tried again, and holds back what is for the
// same workflow id. Several may run.
func (o *Outbox) Relay(ctx context.Context, c Client) error {
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	for {
		if err := o.RelayOnce(ctx, c); err != nil && ctx.Err() == nil {
			o.log.Warn("not all of the outbox can be relayed at present", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// relayPage is how many rows are read, delivered and struck out at once.
const relayPage = 100

type outboxRow struct {
	seq  int64
	id   string
	text string
}

// RelayOnce hands over what is committed now. Its error is the first that kept something from being handed over, which stays.
func (o *Outbox) RelayOnce(ctx context.Context, c Client) error {
	r := &relaying{outbox: o, client: c, held: map[string]bool{}}
	for after := int64(0); ; {
		rows, err := o.page(ctx, after)
		if err == nil && len(rows) > 0 {
			after = rows[len(rows)-1].seq
			err = r.handOver(ctx, rows)
		}
		if err != nil {
			return wrap("pawl: outbox", err)
		}
		if len(rows) < relayPage || len(r.delivered)+len(r.refused) == 0 {
			return wrap("pawl: outbox", r.err)
		}
	}
}

func (o *Outbox) page(ctx context.Context, after int64) (out []outboxRow, err error) {
	rows, err := o.db.QueryContext(ctx,
		o.sql("SELECT seq, id, message FROM {table} WHERE failure IS NULL AND seq > ? ORDER BY seq LIMIT ?"), after, relayPage)
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

// relaying is one pass over the outbox.
type relaying struct {
	outbox *Outbox
	client Client

	mu        sync.Mutex
	held      map[string]bool // workflow ids of what could not be delivered: what follows waits for it
	err       error           // the first reason
	delivered []any           // rows of the page
	refused   map[int64]error
}

// handOver delivers a page, and strikes out what was delivered.
func (r *relaying) handOver(ctx context.Context, rows []outboxRow) error {
	r.delivered, r.refused = nil, map[int64]error{}
	lanes := map[string][]parcel{}
	for _, row := range rows {
		p, err := parse(row)
		if err != nil {
			r.refused[row.seq] = err
		} else if !r.held[p.lane()] {
			lanes[p.lane()] = append(lanes[p.lane()], p)
		}
	}
	var wg sync.WaitGroup
	for lane, parcels := range lanes {
		wg.Go(func() { r.deliver(ctx, lane, parcels) })
	}
	wg.Wait()
	return r.strike(ctx)
}

// deliver hands over what is for one workflow id.
func (r *relaying) deliver(ctx context.Context, lane string, parcels []parcel) {
	for _, p := range parcels {
		err := p.deliver(ctx, r.client)
		r.mu.Lock()
		switch {
		case err == nil:
			r.delivered = append(r.delivered, p.row.seq)
		case undeliverable(err):
			r.refused[p.row.seq] = err
		default:
			r.held[lane] = true
			if r.err == nil {
				r.err = err
			}
		}
		held := r.held[lane]
		r.mu.Unlock()
		if held {
			return
		}
	}
}

// strike keeps the table's account of a page.
func (r *relaying) strike(ctx context.Context) error {
	o := r.outbox
	if n := len(r.delivered); n > 0 {
		marks := strings.TrimSuffix(strings.Repeat("?,", n), ",")
		if _, err := o.db.ExecContext(ctx, o.sql("DELETE FROM {table} WHERE seq IN ("+marks+")"), r.delivered...); err != nil {
			return err
		}
	}
	for seq, reason := range r.refused {
		o.log.Error("a message of the outbox cannot be delivered and stays there", "seq", seq, "error", reason)
		if _, err := o.db.ExecContext(ctx, o.sql("UPDATE {table} SET failure = ? WHERE seq = ?"), reason.Error(), seq); err != nil {
			return err
		}
	}
	return nil
}

// parcel is a row and what it asks for.
type parcel struct {
	row outboxRow
	message
}

func parse(row outboxRow) (parcel, error) {
	p := parcel{row: row}
	err := json.Unmarshal([]byte(row.text), &p.message)
	return p, err
}

// lane is what keeps parcels in order: their workflow id.
func (p *parcel) lane() string {
	switch {
	case p.Start == nil:
		return p.Run
	case p.Start.ID != "":
		return p.Start.ID
	default:
		return "row " + p.row.id // of a run that nobody can name yet
	}
}

// deliver hands one message over. Its id makes a repetition harmless.
func (p *parcel) deliver(ctx context.Context, c Client) error {
	id := "outbox:" + p.row.id
	if p.Start == nil {
		return c.SendEvent(ctx, p.Run, Event{Name: p.Event, ID: id, Payload: p.Body})
	}
	req := *p.Start
	if req.Key == "" {
		req.Key = id
	}
	_, err := c.StartRun(ctx, req)
	return err
}

// undeliverable reports whether no further try would deliver a message.
func undeliverable(err error) bool {
	for _, final := range []error{ErrConflict, ErrNotFound, ErrRunClosed, ErrTooLarge, ErrFull, ErrInvalid} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}
