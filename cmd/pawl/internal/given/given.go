// Package given has what a command carries to the steps of its runs: the environment that it was given in, and the
// flags about it. It tells where another one counts.
package given

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/caller"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/secret"
)

// Terminal is where a command was given.
type Terminal struct {
	Secrets []string  // the values of --secret
	Allowed []string  // the values of --env-allow
	Given   []string  // the flags of the command line
	Tell    io.Writer // takes what is told
}

// form returns what this command gives a process that executes the steps of its runs.
func (t Terminal) form() (caller.Form, error) {
	dir, err := os.Getwd()
	if err != nil {
		return caller.Form{}, err
	}
	f := caller.Form{
		Environment: os.Environ(), Secrets: map[string]string{}, Allowed: t.Allowed, Dir: dir,
		Limits: caller.Limits(), User: os.Getuid(), Process: os.Getpid(),
	}
	for _, text := range t.Secrets {
		name, from, given := strings.Cut(text, "=")
		if !given {
			from = "env:" + name
		}
		f.Secrets[name] = from
	}
	return f, nil
}

// Introduce gives the process that has the database what the steps of this command's runs need. A server uses its own.
// It tells what changes for the runs that are carried on anew.
func (t Terminal) Introduce(ctx context.Context, c *httpapi.Client, carried []core.RunID) error {
	f, err := t.form()
	if err != nil {
		return err
	}
	for _, top := range carried {
		f.Resumes = append(f.Resumes, top.String())
	}
	told, err := httpapi.Introduce(ctx, c, f)
	if api.CodeOf(err) == api.CodeNotFound { // a process of an older version
		told, err = caller.Told{}, nil
	}
	switch {
	case err != nil:
		return err
	case told.Server:
		return t.Refuse("the server that has the database")
	case told.Caller == "":
		return t.Refuse("the process that has the database")
	}
	for _, run := range slices.Sorted(maps.Keys(told.Differs)) {
		fmt.Fprintf(t.Tell, "pawl: run %s goes on with other values of %s than before: those of this command\n",
			live.Short(run), screen.Clean(strings.Join(told.Differs[run], ", ")))
	}
	return nil
}

// Refuse refuses flags about the environment of steps that somebody else executes.
func (t Terminal) Refuse(owner string) error {
	for _, flag := range []string{"secret", "env-allow"} {
		if slices.Contains(t.Given, flag) {
			return &api.Error{
				Code: api.CodeInvalid, Message: fmt.Sprintf("--%s is for steps that this command executes: here "+
					"%s does, with its own secrets and its own environment; give it there", flag, owner),
			}
		}
	}
	return nil
}

// Note notes for whom a run was started that nobody carries on yet.
func Note(logs, run string, store *secret.Store) {
	if own, err := caller.Own(store); err == nil {
		caller.Write(logs, run, own)
	}
}

// Compare tells where the environment of whoever runs were started for differs from this one. Nobody keeps values, so
// only names are compared.
func (t Terminal) Compare(logs string, runs []string, store *secret.Store) {
	own, err := caller.Own(store)
	if err != nil {
		return
	}
	for _, run := range runs {
		note := caller.NoteOf(logs, run)
		if note == nil {
			continue
		}
		var parts []string
		say := func(what string, names []string) {
			if names = caller.Telling(names); len(names) > 0 {
				parts = append(parts, what+" "+strings.Join(names, ", "))
			}
		}
		say("it had", without(note.Variables, own.Names()))
		say("it had no", without(own.Names(), note.Variables))
		say("it had the secret", without(note.Secrets, store.Names()))
		if note.Dir != own.Dir {
			parts = append(parts, "it ran in "+note.Dir)
		}
		if len(parts) > 0 {
			fmt.Fprintf(t.Tell, "pawl: the environment of run %s was another one: %s\n", live.Short(run),
				screen.Clean(strings.Join(parts, "; ")))
		}
	}
}

// without returns the names that others do not have.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(others, n) })
}

// Line tells for whom the attempts of a run were made last; empty: nothing is known.
func Line(logs, run string) string {
	note := caller.NoteOf(logs, run)
	if note == nil {
		return ""
	}
	return fmt.Sprintf("  steps had the environment of process %d in %s: variables %d, secrets %d", note.Process,
		screen.Clean(note.Dir), len(note.Variables), len(note.Secrets))
}
