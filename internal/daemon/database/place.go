// Package database opens the databases of a server that a setting names, and finds what is beside each: logs, a socket,
// the databases of its namespaces.
package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/journal/sqlite"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// DefaultHint names the file of a person's own database.
const DefaultHint = "$XDG_STATE_HOME/pawl/pawl.db"

// Place is the location of a database.
type Place struct {
	Memory    bool
	Server    string // the address of a PostgreSQL database; empty if it is a file
	Path      string
	Namespace string // the namespace that the database belongs to; empty: the default one

	partitions int // number that a new file gets, or an old one must have; 0: any
}

// Default returns the place of a person's own database.
func Default() (Place, error) {
	dir, err := stateDir()
	if err != nil {
		return Place{}, err
	}
	return Place{Path: filepath.Join(dir, "pawl.db")}, nil
}

// Parse reads a text that names a database: sqlite:PATH, postgres://…, or memory:. setting is the user's name for it.
func Parse(setting, text string) (Place, error) {
	scheme, rest, ok := strings.Cut(text, ":")
	switch {
	case text == "memory:" || text == "memory":
		return Place{Memory: true}, nil
	case scheme == "postgres" || scheme == "postgresql":
		return Place{Server: text}, nil
	case ok && scheme == "sqlite":
		path, partitions, err := journal.SplitPartitions(strings.TrimPrefix(rest, "//"))
		if err != nil {
			return Place{}, fmt.Errorf("%s: %s", setting, strings.TrimPrefix(err.Error(), "journal: "))
		}
		if path == "" {
			return Place{}, fmt.Errorf("%s: sqlite: names no file; write sqlite:PATH", setting)
		}
		return Place{Path: path, partitions: partitions}, nil
	default:
		return Place{}, fmt.Errorf("%s %q is not understood; write sqlite:PATH, postgres://USER@HOST/DATABASE, "+
			"or memory: for a database that ends with the command", setting, text)
	}
}

// Name returns the database's name for messages, without a password.
func (p Place) Name() string {
	if p.Memory {
		return "memory:"
	}
	if p.Server == "" {
		return p.Path
	}
	u, err := url.Parse(p.Server)
	if err != nil {
		return "the database"
	}
	return u.Redacted()
}

// InFile reports whether the database is a file.
func (p Place) InFile() bool { return !p.Memory && p.Server == "" }

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

// LogDir returns the folder of the attempts' logs: beside the database, or on this machine if the database is
// elsewhere, in a separate folder for each database.
func (p Place) LogDir() string { return p.folder("logs") }

// SeenFile returns the file that keeps what was seen of the database: beside it, or on this machine if the database is
// elsewhere. Empty: there is none.
func (p Place) SeenFile() string {
	if p.Memory {
		return ""
	}
	return p.folder("seen")
}

// ArtifactDir returns the folder of the files that steps keep, where they are kept on this machine.
func (p Place) ArtifactDir() string { return p.folder("artifacts") }

// folder returns the folder for the files of the database, or "" if there is none.
func (p Place) folder(name string) string {
	if p.InFile() {
		return p.Path + "." + name
	}
	dir, err := stateDir()
	if err != nil {
		return ""
	}
	if p.Server == "" {
		if p.Namespace != "" {
			// A run's id opens its files, so each namespace has a folder.
			return filepath.Join(dir, name+"-"+p.Namespace)
		}
		return filepath.Join(dir, name)
	}
	key, err := server.Key(p.Server) // a namespace has another schema
	if err != nil {
		return "" // such an address is refused before anything is logged
	}
	return filepath.Join(dir, name+"-"+key)
}

// Identity returns a text that distinguishes the database from others, without a password.
func (p Place) Identity() string {
	if p.Server != "" {
		if key, err := server.Key(p.Server); err == nil {
			return "postgres " + key
		}
		return p.Name()
	}
	if p.Memory {
		return p.Name()
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	if path, err := filepath.Abs(p.Path); err == nil {
		return host + ":" + path
	}
	return host + ":" + p.Path
}

// Socket returns the name of the socket at which the process that holds a file answers other commands, or "" if there
// is none.
func (p Place) Socket() string {
	if !p.InFile() {
		return ""
	}
	return httpapi.SocketOf(p.Path)
}

// Owner returns a mark for the processes of this database's steps, so that the next process that opens it ends those
// that outlive this one.
func (p Place) Owner() string {
	if !p.InFile() {
		return "" // they cannot be tried again, or another process that is alive may have started them
	}
	return worker.OwnerOf(p.Path)
}

// OpenReadOnly opens the database for reading, also while another process holds it.
func (p Place) OpenReadOnly(ctx context.Context) (journal.Journal, error) {
	if p.Server != "" {
		return server.OpenReadOnly(ctx, p.Server, p.SeenFile())
	}
	return sqlite.OpenReadOnly(p.Path)
}

// Open opens the database. A file is held from then on; what PostgreSQL keeps is owned by partition.
func (p Place) Open(ctx context.Context) (journal.Journal, error) {
	switch {
	case p.Memory:
		return memory.New(), nil
	case p.Server != "":
		return server.Open(ctx, p.Server, p.SeenFile())
	}
	if err := os.MkdirAll(filepath.Dir(p.Path), 0o700); err != nil {
		return nil, fmt.Errorf("create the database's directory: %w; name another one with --database sqlite:PATH", err)
	}
	j, err := sqlite.Open(p.Path, sqlite.Options{
		Since: policy.At(time.Now()), Partitions: p.partitions, Seen: p.SeenFile(),
	})
	if errors.Is(err, journal.ErrHeld) {
		return nil, &heldError{err}
	}
	if err != nil {
		return nil, err
	}
	return j, nil
}

// Vanished returns an error if a database existed and was removed: its logs are there, the file is not. A server must
// not begin with an empty one then, without tokens and runs, as if nothing had happened.
func (p Place) Vanished() error {
	if !p.InFile() {
		return nil
	}
	if _, err := os.Stat(p.Path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	logs, err := os.ReadDir(p.LogDir())
	if err != nil || len(logs) == 0 {
		return nil //nolint:nilerr // nothing shows that there was one
	}
	return fmt.Errorf("%w: %s is not there, but the logs of its runs are: put the file back, or restore a backup with "+
		"pawl restore; to begin with an empty database remove %s", journal.ErrGone, p.Path, p.LogDir())
}

// heldError tells the user what to do while another process has the database.
type heldError struct{ err error }

func (e *heldError) Error() string {
	return strings.TrimPrefix(e.err.Error(), "journal: ") +
		"\nThat process does not answer other commands. Meanwhile pawl run list, show, events and watch work: they " +
		"only read."
}

func (e *heldError) Unwrap() error { return e.err }

// OwnLogDir returns the folder of the attempts' logs if it has only those of this database, and otherwise nothing.
func (p Place) OwnLogDir() string {
	if p.Memory {
		return ""
	}
	return p.LogDir()
}
