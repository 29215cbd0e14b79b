package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/daemon/database"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/sqlite"
)

// diagnosis is the JSON output of the command.
type diagnosis struct {
	Database string              `json:"database"`
	File     *sqlite.Report      `json:"file,omitempty"`   // nil if there is none
	Server   *journal.Inspection `json:"server,omitempty"` // nil: it is a file, or it cannot be examined
	Runs     int                 `json:"runsCompared"`     // rows held against their history
	SyncP50  float64             `json:"syncP50Ms"`        // how long the disk takes to sync a write; 0 if unknown
	Version  string              `json:"version"`
	Waiting  []string            `json:"waiting"` // runs that wait for the code of a Go program, and since when
	Problems []string            `json:"problems"`

	missing bool // there is no file yet
}

func (a databaseVerbs) doctorCommand() *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check the database and the machine", Args: cobra.NoArgs,
		Long: `Checks the database: that every batch and every history decodes, and that each run's rows say what its
history says; of a file also SQLite's integrity check. Tells who holds the file, or owns the partitions in
PostgreSQL, and how long the disk of a file takes to make a write durable. It only reads the database. Exit status 1 if
something is wrong.

With --repair, what can be made anew from histories is: rows of runs that do not say what their histories say, and
indexes. The file is copied first, and nobody may hold it. Histories that are damaged are never changed: restore a
backup, or leave those runs. Runs that wait for the code of their Go program are listed: that is nothing wrong with the
database.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if repair {
				r, err := a.repair(cmd.Context())
				if err != nil {
					return err
				}
				a.tellRepaired(r)
			}
			d, err := a.diagnose(cmd.Context())
			if err != nil {
				return err
			}
			if a.structured() {
				err = a.print(d)
			} else {
				a.tellDiagnosis(d)
			}
			if err == nil && len(d.Problems) > 0 {
				return &statusError{status: exitFailed}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "compute again what follows from histories")
	return cmd
}

func (a databaseVerbs) diagnose(ctx context.Context) (*diagnosis, error) {
	p, err := a.where()
	if err != nil {
		return nil, err
	}
	if p.Memory {
		return nil, usage("a database in memory: has nothing to check; use --database sqlite:PATH")
	}
	d := &diagnosis{Database: p.Name(), Version: buildVersion(), Waiting: []string{}, Problems: []string{}}
	if p.Server != "" {
		a.examine(ctx, d, p)
		return d, nil
	}
	if d.SyncP50, err = syncFloor(filepath.Dir(p.Path)); err != nil {
		d.Problems = append(d.Problems, err.Error())
	}
	if d.File, err = sqlite.Check(ctx, p.Path); errors.Is(err, fs.ErrNotExist) {
		d.File, d.missing = nil, true
		return d, nil
	} else if err != nil {
		d.File = nil
		d.Problems = append(d.Problems, err.Error())
		return d, nil
	}
	d.Problems = append(d.Problems, d.File.Problems...)
	d.File.Problems = nil
	j, err := sqlite.OpenReadOnly(p.Path)
	if err != nil {
		d.Problems = append(d.Problems, err.Error())
		return d, nil
	}
	defer func() { _ = j.Close() }() // it only read
	a.compare(ctx, d, j)
	return d, nil
}

// examine checks a database in PostgreSQL.
func (a databaseVerbs) examine(ctx context.Context, d *diagnosis, p database.Place) {
	j, err := p.Examine(ctx)
	if d.missing = errors.Is(err, fs.ErrNotExist); d.missing {
		return
	}
	if err != nil {
		d.Problems = append(d.Problems, err.Error())
		return
	}
	defer func() { _ = j.Close() }() // it only read
	if d.Server, err = j.Inspect(ctx); err != nil {
		d.Problems = append(d.Problems, err.Error())
		return
	}
	d.Problems = append(d.Problems, d.Server.Problems...)
	d.Server.Problems = nil
	a.compare(ctx, d, j)
}

// stored is a journal whose runs can be read one after the other.
type stored interface {
	EachRun(ctx context.Context, fn func(journal.Stored) error) error
	Definition(ctx context.Context, id core.DefinitionID) (journal.Definition, error)
}

// compare compares every run's row with its history.
func (a *app) compare(ctx context.Context, d *diagnosis, j stored) {
	err := j.EachRun(ctx, func(r journal.Stored) error {
		if r.Broken == nil { // else the check of the file has reported it
			a.compareRun(ctx, d, j, r)
		}
		return nil
	})
	if err != nil {
		d.Problems = append(d.Problems, err.Error())
	}
}

func (a *app) compareRun(ctx context.Context, d *diagnosis, j stored, r journal.Stored) {
	def, err := j.Definition(ctx, r.Row.Definition)
	var c *compiled
	if err == nil {
		c, err = a.stored(def)
	}
	if err != nil {
		d.problem("run %s: its definition: %v", r.Row.ID, err)
		return
	}
	fold, err := engine.Rows(r.Row.ID, r.Row.Partition, c.Def, r.History)
	if err != nil {
		d.problem("run %s: %v", r.Row.ID, err)
		return
	}
	d.Runs++
	if r.Row.Wake == journal.WakeSetAside {
		d.problem("run %s of %s: %s (the next start of an engine tries again)", r.Row.ID, r.Row.Workflow, r.Row.Message)
		return // its rows are behind until then
	}
	r.Row.Told, fold.Runs[0].Told = "", "" // another version may have other words for the same
	for _, text := range differences(r, fold) {
		d.problem("run %s: %s", r.Row.ID, text)
	}
	waits := core.Restore(r.Row.ID, c.Def, r.History.Entries).WaitsForBody()
	if n := len(r.History.Entries); waits && n > 0 && len(d.Waiting) < 100 {
		d.Waiting = append(d.Waiting, fmt.Sprintf("run %s of %s, since %s", r.Row.ID, r.Row.Workflow,
			r.History.Entries[n-1].At))
	}
}

func (d *diagnosis) problem(format string, args ...any) {
	if len(d.Problems) < 100 {
		d.Problems = append(d.Problems, fmt.Sprintf(format, args...))
	}
}

// differences returns the columns in which a run's rows differ from the fold of its history.
func differences(r journal.Stored, fold journal.View) []string {
	out := columns("", r.Row, fold.Runs[0])
	steps := make(map[core.StepID]journal.StepRow, len(r.Steps))
	for _, s := range r.Steps {
		steps[s.Step] = s
	}
	for _, want := range fold.Steps {
		out = append(out, columns(fmt.Sprintf("step %q: ", want.Name), steps[want.Step], want)...)
		delete(steps, want.Step)
	}
	attempts := make(map[core.Token]journal.AttemptRow, len(r.Attempts))
	for _, a := range r.Attempts {
		attempts[core.Token{Step: a.Step, Attempt: a.Attempt}] = a
	}
	for _, want := range fold.Attempts {
		key := core.Token{Step: want.Step, Attempt: want.Attempt}
		out = append(out, columns(fmt.Sprintf("attempt %d of step %d: ", want.Attempt, want.Step), attempts[key],
			want)...)
		delete(attempts, key)
	}
	if n := len(steps) + len(attempts); n > 0 {
		out = append(out, count(n, "row")+" of steps or attempts that its history does not know")
	}
	return out
}

// columns compares two rows of the same kind, field by field.
func columns[R any](what string, row, fold R) []string {
	var out []string
	in, from := reflect.ValueOf(row), reflect.ValueOf(fold)
	for i := range in.NumField() {
		if a, b := in.Field(i).Interface(), from.Field(i).Interface(); a != b {
			out = append(out, fmt.Sprintf("%s%s is %v in its row and %v in its history", what,
				in.Type().Field(i).Name, a, b))
		}
	}
	return out
}

// syncFloor measures how long the disk takes to make 4 KiB durable, in milliseconds: the least that a step can cost.
func syncFloor(dir string) (float64, error) {
	if _, err := os.Stat(dir); err != nil {
		dir = os.TempDir()
	}
	f, err := os.CreateTemp(dir, "pawl-doctor-*")
	if err != nil {
		return 0, fmt.Errorf("the database's directory takes no files: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 4096)
	var took []time.Duration
	for range 50 {
		from := clockNow()
		if _, err := f.Write(block); err != nil {
			return 0, fmt.Errorf("the database's directory takes no writes: %w", err)
		}
		if err := f.Sync(); err != nil {
			return 0, fmt.Errorf("the disk does not sync: %w", err)
		}
		took = append(took, clockNow().Sub(from))
	}
	slices.Sort(took)
	return max(float64(took[len(took)/2].Microseconds()), 1) / 1000, nil
}

func (a databaseVerbs) tellDiagnosis(d *diagnosis) {
	a.say("pawl      %s", d.Version)
	a.say("database  %s", d.Database)
	switch f := d.File; {
	case d.Server != nil:
		a.tellServer(d)
	case d.missing:
		a.say("          there is none yet; the first run creates it")
	case f == nil:
		a.say("          it cannot be opened")
	default:
		a.say("file      %s, %s log, %s free; SQLite %s, format %d", fileSize(f.Bytes), fileSize(f.Log),
			fileSize(f.Free), f.SQLite, f.Format)
		a.say("view      %s, %d of them open; %d steps, %d attempts", count(int(f.Runs), "run"),
			f.Open, f.Steps, f.Attempts)
		for _, p := range f.Partitions {
			a.say("journal   partition %d: batches %d to %d, the view has all up to %d; last owner %s", p.Partition,
				p.First, p.Last, p.Through, screen.Clean(p.Owner))
		}
		a.say("compared  %s with what its history says", count(d.Runs, "run"))
		if f.Holder.PID != 0 {
			since := ""
			if f.Holder.Since != 0 {
				since = ", for " + screen.For(now().Sub(f.Holder.Since))
			}
			a.say("held by   pid %d (%s)%s", f.Holder.PID, screen.Clean(f.Holder.Command), since)
		} else {
			a.say("held by   nobody")
		}
	}
	if d.SyncP50 > 0 {
		a.say("disk      %.2f ms to make a write durable", d.SyncP50)
	}
	if len(d.Waiting) > 0 {
		a.say("\n%s for the code of a Go program. It is not running, or its code has changed or blocks: then its "+
			"log and Engine.Problem say why.", wait(len(d.Waiting)))
		for _, w := range d.Waiting {
			a.say("  - %s", screen.Clean(w))
		}
	}
	if len(d.Problems) == 0 {
		a.say("\nNothing is wrong.")
		return
	}
	a.say("\n%s:", count(len(d.Problems), "problem"))
	for _, p := range d.Problems {
		a.say("  - %s", screen.Clean(p))
	}
}

func wait(runs int) string {
	if runs == 1 {
		return "1 run waits"
	}
	return fmt.Sprintf("%d runs wait", runs)
}

func (a databaseVerbs) tellServer(d *diagnosis) {
	s := d.Server
	a.say("server    %s", screen.Clean(s.Server))
	a.say("tables    %s, version %d", fileSize(s.Bytes), s.Schema)
	a.say("view      %s, %d of them open; %d steps, %d"+
		" attempts", count(int(s.Runs), "run"), s.Open, s.Steps, s.Attempts)
	for _, p := range s.Partitions {
		owner := "nobody owns it"
		switch {
		case p.Owner != "" && p.Alive:
			owner = "owned by " + screen.Clean(p.Owner)
		case p.Owner != "":
			owner = "its owner gave no sign of life for too long: " + screen.Clean(p.Owner)
		}
		a.say("journal   partition %d: last batch %d, the view has all up to %d;"+
			" %s", p.Partition, p.Last, p.Through, owner)
	}
	a.say("compared  %s with what its history says", count(d.Runs, "run"))
}

func fileSize(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
}
