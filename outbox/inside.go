package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/relay"
)

func init() { relay.Register(begin) }

// inside has the outboxes of the engines that relay by themselves, by engine.
var inside sync.Map

// Of returns the outbox of an engine, a *pawl.Engine, whose journal is in PostgreSQL. It needs neither Create nor
// Relay: the table is in the journal's schema, and the engine that is opened on it delivers, or one of the nodes of a
// cluster. What [StartIn] and [SendIn] write has happened when the caller's transaction commits. The transaction must
// be on that same database, by whatever driver; another database refuses the message with ErrInvalid, and that
// transaction cannot be committed. Its user needs USAGE on the schema and INSERT on the table outbox in it.
//
// A process that has no engine writes with New, Config.Postgres and Config.Table "pawl.outbox", where pawl is
// the journal's schema.
//
// Errors: ErrInvalid if the engine keeps its runs elsewhere, or was closed.
func Of(e pawl.Client) (*Outbox, error) {
	if o, ok := inside.Load(e); ok {
		return o.(*Outbox), nil
	}
	return nil, refuse(pawl.ErrInvalid, "the engine is closed, or its journal is not in PostgreSQL: open it with "+
		`Config.Database "postgres://…", or use New with a table in the database of your transactions`)
}

// begin relays for an engine what its journal keeps.
func begin(ctx context.Context, engine any, s relay.Setting) (stop func()) {
	e := engine.(pawl.Client)
	propagators, _ := s.Propagators.([]pawl.Propagator)
	o, err := New(s.DB, Config{
		Postgres: true, Codec: e.Codec(), MaxPayload: s.MaxPayload, Propagators: propagators, Log: s.Log,
	})
	if err != nil {
		s.Log.Error("the outbox of the engine does not work", "id", "outbox-stopped", "error", err)
		return func() {}
	}
	o.table, o.database, o.turn = s.Name, s.Database, s.Turn
	ctx, cancel := context.WithCancel(ctx)
	var relaying sync.WaitGroup
	relaying.Go(func() { _ = o.Relay(ctx, e) }) // the error is that it was stopped
	inside.Store(e, o)
	return func() {
		inside.Delete(e)
		cancel()
		relaying.Wait()
	}
}

// Codes with which PostgreSQL refuses a message of a transaction on another database: the constraint of the table
// fails, or there is no such table, column or schema. See the appendix "PostgreSQL Error Codes" of its manual.
var otherDatabase = []string{"23514", "42P01", "42703", "3F000"}

// explain adds the probable cause to the error of a message that could not be written into an engine's own table.
func (o *Outbox) explain(err error) error {
	var said interface{ SQLState() string }
	if err == nil || o.database == "" || !errors.As(err, &said) {
		return wrap(err)
	}
	switch code := said.SQLState(); {
	case slices.Contains(otherDatabase, code):
		return refuse(pawl.ErrInvalid, "the transaction is not on the database that has the engine's journal: begin "+
			"it there, or use New with a table of your own: %w", err)
	case code == "42501":
		return wrap(fmt.Errorf("grant the transaction's user USAGE on the schema of the engine's journal and INSERT "+
			"on %s: %w", o.table, err))
	}
	return wrap(err)
}
