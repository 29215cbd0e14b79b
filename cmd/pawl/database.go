package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/journal/postgres"
	"github.com/pawl-dev/pawl/internal/journal/sqlite"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/virtual"
	"github.com/pawl-dev/pawl/policy"
)

const defaultPathHint = "$XDG_STATE_HOME/pawl/pawl.db"

// place is a parsed --database.
type place struct {
	memory     bool
	server     string // the address of a PostgreSQL database; empty: it is a file
	path       string
	namespace  string // the namespace that the database belongs to; empty: the default one
	partitions int    // number that a new file gets, or an old one must have; 0: any
}

// name returns the database's name for messages, without a password.
func (p place) name() string {
	if p.memory {
		return "memory:"
	}
	if p.server == "" {
		return p.path
	}
	u, err := url.Parse(p.server)
	if err != nil {
		return "the database"
	}
	return u.Redacted()
}

// where parses --database and finds the default.
func (a *app) where() (place, error) {
	if a.namespace != "" {
		return place{}, usage("--namespace (PAWL_NAMESPACE) is for a --server: here name the database of the namespace")
	}
	if a.server != "" {
		return place{}, usage("this needs the database itself: leave --server (PAWL_SERVER) out, and give --database")
	}
	if a.database == "" {
		dir, err := stateDir()
		if err != nil {
			return place{}, err
		}
		return place{path: filepath.Join(dir, "pawl.db")}, nil
	}
	return parsePlace("database", a.database)
}

// parsePlace parses the value of a flag that names a database.
func parsePlace(flag, text string) (place, error) {
	scheme, rest, ok := strings.Cut(text, ":")
	switch {
	case text == "memory:" || text == "memory":
		return place{memory: true}, nil
	case scheme == "postgres" || scheme == "postgresql":
		return place{server: text}, nil
	case ok && scheme == "sqlite":
		path, partitions, err := journal.SplitPartitions(strings.TrimPrefix(rest, "//"))
		if err != nil {
			return place{}, usage("--%s: %s", flag, strings.TrimPrefix(err.Error(), "journal: "))
		}
		if path == "" {
			return place{}, usage("--%s: sqlite: names no file; write sqlite:PATH", flag)
		}
		return place{path: path, partitions: partitions}, nil
	default:
		return place{}, usage("--%s %q is not understood; write sqlite:PATH, postgres://USER@HOST/DATABASE, "+
			"or memory: for a database that ends with the command", flag, text)
	}
}

// stateDir returns the folder of a person's own database.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "pawl"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("where is the database? There is no home directory: %w; give --database sqlite:PATH", err)
	}
	return filepath.Join(home, ".local", "state", "pawl"), nil
}

// logDir returns the folder of the attempts' logs: beside the database, or on this machine where the database is
// elsewhere, in a folder of its own for each database.
func (p place) logDir() string {
	if !p.memory && p.server == "" {
		return p.path + ".logs"
	}
	dir, err := stateDir()
	if err != nil {
		return ""
	}
	if p.server == "" {
		if p.namespace != "" {
			return filepath.Join(dir, "logs-"+p.namespace) // a run's id opens its logs, so each namespace has a folder
		}
		return filepath.Join(dir, "logs")
	}
	key, err := postgres.Key(p.server) // a namespace has another schema
	if err != nil {
		return "" // such an address is refused before anything is logged
	}
	return filepath.Join(dir, "logs-"+key)
}

// openToRead opens the database for looking, whoever holds it.
func (a *app) openToRead(ctx context.Context) (*service.File, func(), error) {
	p, err := a.where()
	if err != nil {
		return nil, nil, err
	}
	if p.memory {
		return nil, nil, usage("a database in memory: ends with its command, so there is nothing to look at; use " +
			"--database sqlite:PATH")
	}
	j, err := p.openReadOnly(ctx)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("there is no database at %s yet: start a run with pawl run FILE, "+
			"or name another one with --database", p.name())
	}
	if err != nil {
		return nil, nil, err
	}
	a.clock = func(ctx context.Context) (api.Time, bool) {
		at, err := virtual.Shown(ctx, j)
		return api.Time(at), err == nil && at != 0
	}
	instant := func() time.Time { return a.runsNow(ctx) }
	return service.NewFile(j, a.readWorkflow, instant), func() { _ = j.Close() }, nil
}

func (p place) openReadOnly(ctx context.Context) (journal.Journal, error) {
	if p.server != "" {
		return postgres.OpenReadOnly(ctx, p.server)
	}
	return sqlite.OpenReadOnly(p.path)
}

// openToWrite opens the database. A file is held from then on; what PostgreSQL keeps is owned by partition.
func (p place) openToWrite(ctx context.Context) (journal.Journal, error) {
	switch {
	case p.memory:
		return memory.New(), nil
	case p.server != "":
		return postgres.Open(ctx, p.server)
	}
	if err := os.MkdirAll(filepath.Dir(p.path), 0o700); err != nil {
		return nil, fmt.Errorf("create the database's directory: %w; name another one with --database sqlite:PATH", err)
	}
	j, err := sqlite.Open(p.path, sqlite.Options{Since: now(), Partitions: p.partitions})
	if errors.Is(err, journal.ErrHeld) {
		return nil, &heldError{err}
	}
	if err != nil {
		return nil, err
	}
	return j, nil
}

// heldError says what a person can do while another process has the database.
type heldError struct{ err error }

func (e *heldError) Error() string {
	return strings.TrimPrefix(e.err.Error(), "journal: ") +
		"\nThat process does not answer other commands. Meanwhile pawl run list, show, events and watch work: they " +
		"only read."
}

func (e *heldError) Unwrap() error { return e.err }

// reading calls fn with the database opened for looking, or with the server.
func (a *app) reading(ctx context.Context, fn func(ctx context.Context, svc api.Service) error) error {
	if a.server != "" {
		c, err := a.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		return fn(ctx, c)
	}
	svc, closeIt, err := a.openToRead(ctx)
	if err != nil {
		return err
	}
	defer closeIt()
	return fn(ctx, svc)
}

// now returns the wall clock's time, as the command line reads it.
func now() core.Time { return policy.At(clockNow()) }

// runsNow returns the time of the runs that this command is about: that of the wall clock, unless their server or
// database has reported a clock that stands.
func (a *app) runsNow(ctx context.Context) time.Time {
	if a.clock == nil && a.server != "" {
		if c, err := a.connect(); err == nil { // the command will tell what is wrong with the address
			defer c.Close()
		}
	}
	if a.clock != nil {
		if at, stands := a.clock(ctx); stands {
			return at.Std()
		}
	}
	return clockNow()
}

// clockOf returns the clock that shows runsNow.
func (a *app) clockOf(ctx context.Context) func() time.Time {
	return func() time.Time { return a.runsNow(ctx) }
}

// apiNow returns the wall clock's time for the values of package api.
func apiNow() api.Time { return api.At(clockNow()) }
