package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/plugged"
)

// Tx executes a statement in the caller's transaction. [SQLTx] and [PgxTx] make one.
type Tx func(ctx context.Context, query string, args ...any) error

// SQLTx returns the Tx of a database/sql transaction, or of anything that executes like it.
func SQLTx(tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
},
) Tx {
	if tx == nil {
		return nil
	}
	return func(ctx context.Context, query string, args ...any) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	}
}

// PgxTx returns the Tx of a pgx transaction (pgx.Tx), or of anything that executes like it. This package links no
// driver.
func PgxTx[Tag any](tx interface {
	Exec(ctx context.Context, query string, args ...any) (Tag, error)
},
) Tx {
	if tx == nil {
		return nil
	}
	return func(ctx context.Context, query string, args ...any) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	}
}

// StartIn starts a run when the caller's transaction commits. The workflow must be known to the engine that the
// outbox is relayed to. What could never be delivered is refused before anything is written. Errors: ErrInvalid,
// ErrTooLarge.
func StartIn[In, Out any](ctx context.Context, o *Outbox, tx Tx, w *pawl.Workflow[In, Out], id string, in In,
	opts ...pawl.StartOption,
) error {
	c, err := o.within(tx)
	if err == nil {
		_, err = w.Start(ctx, c, id, in, opts...)
	}
	return err
}

// SendIn sends an event when the caller's transaction commits. The run is named by its workflow id or its run id.
// Errors: ErrInvalid, ErrTooLarge.
func SendIn[T any](ctx context.Context, o *Outbox, tx Tx, run string, event pawl.Event[T], payload T) error {
	c, err := o.within(tx)
	if err != nil {
		return err
	}
	return event.Send(ctx, c, run, payload)
}

// within returns what writes into a transaction.
func (o *Outbox) within(tx Tx) (*txClient, error) {
	switch {
	case o == nil || o.codec == nil:
		return nil, refuse(pawl.ErrInvalid, "nobody has made it: use New or Of")
	case tx == nil:
		return nil, refuse(pawl.ErrInvalid, "the transaction is nil: make a Tx with SQLTx or PgxTx")
	default:
		return &txClient{outbox: o, tx: tx}, nil
	}
}

// txClient is a client that does nothing yet: it writes what it is asked for into the caller's transaction. A workflow
// can therefore check itself, encode its input and apply options as it does for an engine.
type txClient struct {
	pawl.Client // nil: Workflow.Start and Event.Send call only the methods below

	outbox *Outbox
	tx     Tx
}

func (c *txClient) Codec() pawl.Codec { return c.outbox.codec }

// Register does nothing: the engine that the message reaches knows the workflow, or refuses the start.
func (c *txClient) Register(...pawl.Definition) error { return nil }

func (c *txClient) StartRun(ctx context.Context, r client.StartRequest) (client.Started, error) {
	headers, err := plugged.Headers(ctx, c.outbox.propagators, r.Headers) // the relay no longer has the context
	if err != nil {
		return client.Started{}, api.Spoken(err)
	}
	r.Headers = headers
	if err := c.outbox.checkStart(&r); err != nil {
		return client.Started{}, err
	}
	s := start(r)
	return client.Started{}, c.write(ctx, message{Start: &s})
}

func (c *txClient) SendEvent(ctx context.Context, run string, r client.SendRequest) error {
	if err := c.outbox.checkEvent(run, &r); err != nil {
		return err
	}
	return c.write(ctx, message{Run: run, Event: r.Name, Body: r.Payload})
}

func (c *txClient) write(ctx context.Context, m message) error {
	o := c.outbox
	text, err := m.encode()
	if err != nil {
		return refuse(pawl.ErrInvalid, "the message cannot be encoded: %w", err)
	}
	query := "INSERT INTO {table} (id, message, created_ms) VALUES (?, ?, ?)"
	args := []any{rand.Text(), text, time.Now().UnixMilli()}
	if o.database != "" {
		query = "INSERT INTO {table} (id, message, created_ms, database) VALUES (?, ?, ?, ?)"
		args = append(args, o.database)
	}
	if o.postgres {
		// PostgreSQL announces the message when the transaction is committed. One statement saves a round trip.
		query = "WITH written AS (" + query + ") SELECT pg_notify('" + o.channel() + "', '')"
	}
	return o.explain(c.tx(ctx, o.sql(query), args...))
}
