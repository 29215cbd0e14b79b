package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/sqlite"
)

// repaired is the result of a repair.
type repaired struct {
	Copy string   `json:"copy"` // the file as it was before
	Runs []string `json:"runs"` // runs whose rows were written anew
}

// repair derives again from histories what can be: the rows of runs that do not match them, and indexes. What is in the
// histories themselves is never changed.
func (a databaseVerbs) repair(ctx context.Context) (*repaired, error) {
	p, err := a.where()
	switch {
	case err != nil:
		return nil, err
	case p.Memory:
		return nil, usage("--repair is for a database in a file")
	case p.Server != "":
		return nil, usage("--repair is for a database in a file: it works on one that nobody else writes, after a " +
			"copy of it was made, and neither can be had from a server\nRestore a backup, or let PostgreSQL make its " +
			"indexes anew: REINDEX DATABASE")
	}
	if _, err := os.Stat(p.Path); err != nil {
		return nil, fmt.Errorf("there is no database at %s", p.Path)
	}
	if h, held := sqlite.Held(p.Path); held {
		return nil, fmt.Errorf("%s is held by pid %d (%s): stop it, then repair", p.Path, h.PID,
			screen.Clean(h.Command))
	}
	out := &repaired{Runs: []string{}}
	if out.Copy, err = copyDatabase(p.Path); err != nil {
		return nil, fmt.Errorf("the database was not changed: no copy of it could be made: %w", err)
	}
	j, err := sqlite.Open(p.Path, sqlite.Options{Since: now()})
	if err != nil {
		return nil, err
	}
	err = j.Reindex(ctx)
	if err == nil {
		err = a.rewriteRows(ctx, j, out)
	}
	return out, errors.Join(err, j.Close())
}

// rewriteRows writes again the rows of runs that do not match their histories.
func (a databaseVerbs) rewriteRows(ctx context.Context, j *sqlite.Journal, out *repaired) error {
	wrong := map[core.RunID]journal.View{}
	err := j.EachRun(ctx, func(r journal.Stored) error {
		if r.Broken != nil || r.Row.Wake == journal.WakeSetAside {
			return nil //nolint:nilerr // nothing says what its rows should be, or the next engine tries again
		}
		def, err := j.Definition(ctx, r.Row.Definition)
		if err != nil {
			return nil //nolint:nilerr // the examination says so
		}
		c, err := a.stored(def)
		if err != nil {
			return nil //nolint:nilerr // the examination says so
		}
		fold, err := engine.Rows(r.Row.ID, r.Row.Partition, c.Def, r.History)
		if err == nil && len(differences(r, fold)) > 0 {
			wrong[r.Row.ID] = fold
			out.Runs = append(out.Runs, r.Row.ID.String())
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, fold := range wrong {
		if err := j.Rewrite(ctx, &fold); err != nil {
			return err
		}
	}
	return nil
}

// copyDatabase copies a file that nobody holds, with its log, and returns the name of the copy.
func copyDatabase(path string) (string, error) {
	name := path + ".before-repair-" + clockNow().UTC().Format("20060102T150405.000Z")
	for _, suffix := range []string{"", "-wal"} {
		err := copyFile(name+suffix, path+suffix)
		if err != nil && !(suffix != "" && errors.Is(err, fs.ErrNotExist)) {
			return "", err
		}
	}
	return name, nil
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// tellRepaired reports what a repair did.
func (a databaseVerbs) tellRepaired(r *repaired) {
	fmt.Fprintf(a.Err, "pawl: the database as it was is in %s\n", r.Copy)
	text := "indexes were made anew"
	if n := len(r.Runs); n > 0 {
		text += fmt.Sprintf(", and the rows of %s: %s", count(n, "run"), strings.Join(r.Runs[:min(n, 5)], ", "))
		if n > 5 {
			text += ", …"
		}
	}
	fmt.Fprintf(a.Err, "pawl: %s\n", text)
}
