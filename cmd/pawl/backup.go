package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/daemon/database"
	"github.com/pawl-dev/pawl/internal/journal/sqlite"
)

// copied is the JSON output of a backup.
type copied struct {
	Database string `json:"database"`
	File     string `json:"file"`
	Bytes    int64  `json:"bytes"`
	Runs     int    `json:"runs"`
	Files    int    `json:"artifacts"` // files of steps that were copied beside it
}

func (a databaseVerbs) backupCommand() *cobra.Command {
	return &cobra.Command{
		Use: "backup FILE", Short: "Copy the database, also while it is in use", Args: cobra.ExactArgs(1),
		Long: `Copies the database in a file as it is at one moment, also while a server writes it, and checks the copy
as pawl doctor does. The file must not exist. Artifacts that are kept in a folder are copied beside it, to
FILE.artifacts; a bucket of S3 stays where it is. What attempts print (the folder PATH.logs) is not copied. PostgreSQL
has backups of its own: pg_dump.`,
		Example: "  pawl backup --database sqlite:/var/lib/pawl/pawl.db /backup/pawl-monday.db",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.fileToCopy()
			if err != nil {
				return err
			}
			if _, err := os.Stat(p.Path); err != nil {
				return fmt.Errorf("there is no database at %s", p.Path)
			}
			return a.copyChecked(cmd.Context(), p.Path, args[0], p.Path, a.folders(p.Path, args[0], true))
		},
	}
}

func (a databaseVerbs) restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use: "restore FILE", Short: "Restore the database from a backup", Args: cobra.ExactArgs(1),
		Long: `Checks a backup as pawl doctor does, and copies it to where the database is to be, with its artifacts.
There must be no database: move an old one away, with its -wal and -shm files. What happened after the backup is not in
it: attempts that were made since are made again.`,
		Example: "  pawl restore --database sqlite:/var/lib/pawl/pawl.db /backup/pawl-monday.db",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.fileToCopy()
			if err != nil {
				return err
			}
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if _, err := os.Lstat(p.Path + suffix); err == nil {
					return fmt.Errorf("%s exists: move it away first", p.Path+suffix)
				}
			}
			err = a.copyChecked(cmd.Context(), args[0], p.Path, p.Path, a.folders(args[0], p.Path, false))
			if err != nil {
				return err
			}
			return acceptRestored(cmd.Context(), p)
		},
	}
}

// acceptRestored accepts a restored file where a newer one was before: restoring it is what the operator wants.
func acceptRestored(ctx context.Context, p database.Place) error {
	if _, err := os.Stat(p.SeenFile()); err != nil {
		return nil //nolint:nilerr // nothing was seen here before
	}
	j, err := p.OpenToAccept(ctx)
	if err != nil {
		return err
	}
	_, err = p.Accept(ctx, j)
	return errors.Join(err, j.Close())
}

// fileToCopy returns the file of the database.
func (a databaseVerbs) fileToCopy() (database.Place, error) {
	p, err := a.where()
	if err == nil && (p.Memory || p.Server != "") {
		err = usage("this is for a database in a file; PostgreSQL has backups of its own")
	}
	return p, err
}

// folders are the folders with the artifacts of a database and of its copy; empty if there are none.
type folders struct{ from, to string }

// folders returns the folders of a copy. The flag --artifacts names the folder of the database, which is the first one
// in a backup.
func (a databaseVerbs) folders(from, to string, backup bool) folders {
	f := folders{from + ".artifacts", to + ".artifacts"}
	switch {
	case strings.Contains(a.artifacts, "://"):
		return folders{}
	case a.artifacts != "" && backup:
		f.from = a.artifacts
	case a.artifacts != "":
		f.to = a.artifacts
	}
	return f
}

// copyArtifacts copies the files that steps have kept, and returns how many.
func (f folders) copyArtifacts(ctx context.Context) (int, error) {
	if f.from == "" {
		return 0, nil
	}
	files, err := artifact.New(artifact.NewFolder(f.from), artifact.Limits{}).CopyTo(ctx, artifact.NewFolder(f.to))
	if err != nil {
		err = fmt.Errorf("the database was copied, its artifacts were not: %w", err)
	}
	return files, err
}

// copyChecked copies a database with its artifacts, and checks the copy. A copy that is not sound is removed.
func (a databaseVerbs) copyChecked(ctx context.Context, from, to, database string, kept folders) error {
	if err := sqlite.Backup(ctx, from, to); err != nil {
		return err
	}
	d, err := databaseVerbs{&app{streams: a.streams, database: "sqlite:" + to}}.diagnose(ctx)
	if err == nil && len(d.Problems) > 0 {
		err = fmt.Errorf("the copy of %s is not sound, and was removed: %s", from, strings.Join(d.Problems, "; "))
	}
	if err != nil {
		return joinRemoved(err, to)
	}
	for _, suffix := range []string{"-wal", "-shm"} { // the files of the check; no other process has the copy
		_ = os.Remove(to + suffix)
	}
	files, err := kept.copyArtifacts(ctx)
	if err != nil {
		return err
	}
	if a.structured() {
		return a.print(copied{database, to, d.File.Bytes, int(d.File.Runs), files})
	}
	a.say("%s holds what %s had: %s, %s, checked", to, from, count(int(d.File.Runs), "run"), fileSize(d.File.Bytes))
	if files > 0 {
		a.say("%s holds its artifacts: %s", kept.to, count(files, "file"))
	}
	return nil
}

// joinRemoved removes a file because of an error.
func joinRemoved(err error, path string) error {
	if removed := os.Remove(path); removed != nil {
		return fmt.Errorf("%w; %w", err, removed)
	}
	return err
}
