// Package relay is the door between an engine and package outbox, for journals that keep what callers write within
// transactions of their own. Package outbox registers a relay that delivers such messages, as drivers of database/sql
// do; the root package begins it with each engine. So the root package need not link what only PostgreSQL needs.
package relay

import (
	"context"
	"database/sql"
	"log/slog"
	"sync"
)

// Table is where a journal keeps the messages. Its columns are those of a table that package outbox makes, and one
// more: database.
type Table struct {
	DB       *sql.DB // reads and deletes messages; it belongs to the journal
	Name     string  // the table's name in statements
	Database string  // the database that messages name: another database refuses them
}

// Journal is a journal with such a table.
type Journal interface {
	// Outbox returns the table.
	Outbox() Table
}

// Setting is the data that the relay of an engine needs.
type Setting struct {
	Table
	MaxPayload  int
	Propagators any // a []pawl.Propagator
	Log         *slog.Logger
	// Turn reports whether this engine delivers, if it is one of several on its journal. nil: it is the only one.
	Turn func() bool
}

// Relay delivers messages to an engine, a pawl.Client, until stop is called. stop returns when no delivery is in
// progress any longer.
type Relay func(ctx context.Context, engine any, s Setting) (stop func())

var registered struct {
	sync.RWMutex
	relay Relay
}

// Register makes Begin use a relay.
func Register(r Relay) {
	registered.Lock()
	defer registered.Unlock()
	registered.relay = r
}

// Begin begins to relay what a journal keeps for an engine, if it keeps any and a relay is registered. The context's
// values are those of the deliveries. The journal fills in the setting's table. stop may be called more than once.
func Begin(ctx context.Context, engine, journal any, s Setting) (stop func()) {
	registered.RLock()
	r := registered.relay
	registered.RUnlock()
	j, ok := journal.(Journal)
	if !ok || r == nil {
		return func() {}
	}
	s.Table = j.Outbox()
	return sync.OnceFunc(r(context.WithoutCancel(ctx), engine, s))
}
