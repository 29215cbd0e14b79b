package database

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/internal/journal"
)

// Driver opens the databases of one kind of database server.
type Driver struct {
	// Open opens a database. seen is the file with what this process, or the one before it, has seen of it.
	Open         func(ctx context.Context, address, seen string) (journal.Journal, error)
	OpenReadOnly func(ctx context.Context, address, seen string) (journal.Inspected, error)
	// Key returns a text that differs between the databases of two addresses, and has no password.
	Key func(address string) (string, error)
}

// errNotBuilt is what opening a database on a server returns in a program that was built without its driver.
var errNotBuilt = errors.New("this program was built without PostgreSQL: use one that was built without -tags small")

// server is the driver of PostgreSQL. A program without it can still use files, and refuses addresses of servers.
var server = Driver{
	Open:         func(_ context.Context, _, _ string) (journal.Journal, error) { return nil, errNotBuilt },
	OpenReadOnly: func(_ context.Context, _, _ string) (journal.Inspected, error) { return nil, errNotBuilt },
	Key:          func(string) (string, error) { return "", errNotBuilt },
}

// Register sets the driver of PostgreSQL. It is called while the program starts.
func Register(d Driver) { server = d }

// Examine opens a database on a server in order to examine it.
func (p Place) Examine(ctx context.Context) (journal.Inspected, error) {
	return server.OpenReadOnly(ctx, p.Server, p.SeenFile())
}
