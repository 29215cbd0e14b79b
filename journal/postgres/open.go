// Package postgres keeps runs in a schema of a PostgreSQL database, for programs on several machines. What was
// acknowledged is as durable as the database's own commits. Several programs may open it: each of its partitions has
// one owner, and another program takes over when that one has closed its engine or gives no sign of life.
//
// Importing the package is enough for a [pawl.Config] with
//
//	Database: "postgres://pawl@db.example/shop?schema=pawl"
//
// The address has the form of libpq and pgx. These parameters are Pawl's:
//
//	schema             the schema of the tables; default: the first of search_path, else pawl
//	partitions         how many partitions a new schema gets; it keeps them. Default 8
//	lease              how long a partition is its owner's without a sign of life; default 3s
//	statement_timeout  how long one statement may take; default 30s
//	pool_max_conns     how many connections a process may use for runs; default 10. Two more are for package outbox
//
// The tables come with the first program that opens the address. psql reads the views runs, steps and attempts.
// Connections may come from PgBouncer in transaction mode.
package postgres

import (
	"context"

	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/postgres"
	_ "github.com/pawl-dev/pawl/outbox" // delivers what callers write into the schema within their transactions
)

// Open opens the schema that an address names for [pawl.Config]'s Journal, and creates its tables if there are none.
// The context bounds the opening.
func Open(ctx context.Context, address string) (journal.Journal, error) {
	return postgres.Open(ctx, address)
}
