package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/service"
)

func (a resumeVerbs) resumeCommand() *cobra.Command {
	var asJSON, quiet, all bool
	cmd := &cobra.Command{
		Use: "resume [RUN…]", Short: "Carry open runs on to their end",
		Long: `Carries the open runs of the database on, all of them or those named, and shows them like "pawl run"
does, with the same exit statuses; of several runs the worst counts. What is left open by a stop, a crash or a kill -9
continues where it was: no finished step runs again, and every deadline is where it was.

Only these runs are carried on, with their children and the runs that follow them. Other open runs are left alone: their
steps do not start and their limits do not fire until you resume them.

What happened before is not printed again: see pawl run events RUN. A run that somebody paused waits until it is
resumed: pawl run resume RUN. After a reboot this command has to be given again; pawl install-unit makes systemd do
so.`,
		Annotations: map[string]string{following: "yes"},
		Example:     "  pawl resume\n  pawl resume order-42",
		RunE: func(cmd *cobra.Command, args []string) error {
			if all && len(args) > 0 {
				return usage("--all is all open runs: leave out %s, or --all", strings.Join(args, " "))
			}
			return a.resume(cmd.Context(), args, a.chooseTelling(asJSON, quiet))
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all open runs, as without names")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object an event")
	cmd.Flags().BoolVar(&quiet, "quiet", false, "print the outputs and nothing else")
	return cmd
}

func (a resumeVerbs) resume(ctx context.Context, names []string, how telling) error {
	ids, tops, err := a.toResume(ctx, names)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return a.tellNothing(ctx, how)
	}
	err = a.reading(ctx, func(ctx context.Context, svc api.Service) error { return a.checkResumed(ctx, svc, ids) })
	if err != nil {
		return err
	}
	if p, err := a.where(); err == nil && p.InFile() {
		if store, err := a.secretStore(); err == nil {
			terminalOf(a.app).Compare(p.LogDir(), ids, store)
		}
	}
	if how != tellQuiet && how != tellJSON { // these runs make no progress yet
		err := a.reading(ctx, func(ctx context.Context, svc api.Service) error {
			a.warnOfOpenTasks(ctx, svc, ids)
			return nil
		})
		if err != nil {
			return err
		}
	}
	m, err := a.start(ctx, true, tops...)
	if err != nil {
		return err
	}
	return a.carry(ctx, m, ids, how)
}

// tellNothing prints that there is nothing to carry on: all runs have ended, or wait for their operator.
func (a resumeVerbs) tellNothing(ctx context.Context, how telling) error {
	if how == tellJSON {
		return nil
	}
	return a.reading(ctx, func(ctx context.Context, svc api.Service) error {
		paused, err := svc.Runs(ctx, api.Query{Phases: []api.RunPhase{api.RunPaused}, Limit: 1})
		if err != nil {
			return err
		}
		open, err := svc.Runs(ctx, api.Query{Phases: goingOn, Limit: 1})
		switch {
		case err != nil:
			return err
		case len(paused.Runs) > 0:
			a.say("Nothing goes on: what is open is paused, such as run %s; let it go on with pawl run resume.",
				live.Short(paused.Runs[0].Run))
		case len(open.Runs) > 0:
			a.say("Nothing goes on here: what is open is a Go program's, such as run %s.", live.Short(open.Runs[0].Run))
		default:
			a.say("Nothing is open: all runs have ended.")
		}
		return nil
	})
}

// toResume finds the runs to carry on. It only reads, so that a mistyped name starts nothing.
func (a *app) toResume(ctx context.Context, names []string) (ids []string, tops []core.RunID, err error) {
	add := func(ctx context.Context, svc api.Service, r *api.Run) error {
		top, err := service.TopOf(ctx, svc, r)
		if !slices.Contains(ids, r.Run) {
			ids, tops = append(ids, r.Run), append(tops, top)
		}
		return err
	}
	err = a.reading(ctx, func(ctx context.Context, svc api.Service) error {
		if len(names) == 0 {
			return a.openRuns(ctx, svc, add)
		}
		for _, name := range names {
			r, err := a.findCarried(ctx, svc, name)
			if api.CodeOf(err) == api.CodeNotFound { // the name of a schedule means the schedule and its open runs
				if s, missing := svc.Run(ctx, schedule.Prefix+name); missing == nil && !s.Phase.Closed() {
					r, err = s, nil
				}
			}
			if err != nil {
				return err
			}
			if r.Workflow == schedule.Workflow {
				more, families, err := familyOf(ctx, svc, r)
				if err != nil {
					return err
				}
				ids, tops = append(ids, more...), append(tops, families...)
				continue
			}
			if r.PausedAt != 0 {
				fmt.Fprintf(a.Err, "pawl: run %s is paused, nothing of it starts; leave it, then let it go on with: "+
					"%s --follow\n", live.Short(r.Run), howOn(r))
			}
			if err := add(ctx, svc, r); err != nil {
				return err
			}
		}
		return nil
	})
	return ids, tops, err
}

// goingOn are the phases of open runs that are not paused.
var goingOn = []api.RunPhase{api.RunPending, api.RunRunning, api.RunWaiting}

// openRuns adds the runs to carry on, the oldest first. It leaves out child runs, because their parents are listed,
// runs that only a Go program can carry on, and paused runs, which wait for their operator.
func (a *app) openRuns(
	ctx context.Context, svc api.Service, add func(context.Context, api.Service, *api.Run) error,
) error {
	var rows []api.RunSummary
	known := map[string]carrier{} // the carriers by definition
	functions := false
	q := api.Query{Phases: goingOn, Limit: 500}
	for more := true; more; {
		page, err := svc.Runs(ctx, q)
		if err != nil {
			return err
		}
		for _, row := range page.Runs {
			by, ok := known[row.Definition]
			if !ok {
				by = a.carrierOf(ctx, svc, row.Definition)
				known[row.Definition] = by
			}
			functions = functions || by.function
			if by.here && row.Parent == "" {
				rows = append(rows, row)
			}
		}
		more, q.Cursor = page.Next != "", page.Next
		if more && len(rows) > maxFollowed {
			return fmt.Errorf("more than %d runs are open; name those to carry on", maxFollowed)
		}
	}
	for _, row := range slices.Backward(rows) {
		r, err := svc.Run(ctx, row.Run)
		if err == nil && functions && row.WorkflowID != "" { // a schedule may wait for its end
			if err = a.carriedHere(ctx, svc, r); errors.As(err, new(*workflows.ReadOnlyError)) {
				continue
			}
		}
		if err == nil {
			err = add(ctx, svc, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// carrier specifies who carries on the runs of a definition.
type carrier struct {
	here     bool // this command can; or it cannot be read, and the engine reports why
	function bool // a Go function decides
}

func (a *app) carrierOf(ctx context.Context, svc api.Service, definition string) carrier {
	c, err := a.definitionOf(ctx, svc, definition)
	if err != nil {
		return carrier{here: true}
	}
	return carrier{here: c.ReadOnly() == nil, function: c.Flow == nil}
}

// maxFollowed bounds the runs that one command follows.
const maxFollowed = 5000

// resumeUnit is the systemd unit that carries runs on after a reboot or a crash.
const resumeUnit = "pawl-resume.service"

func (a resumeVerbs) installUnitCommand() *cobra.Command {
	var show bool
	cmd := &cobra.Command{
		Use: "install-unit", Short: "Let systemd carry open runs on after a reboot", Args: cobra.NoArgs,
		Long: `Writes a unit for your own systemd (systemctl --user), which runs "pawl resume --all" when the machine
has started. It ends when nothing is open. Secrets come from the configuration file, as they do for you; variables of
the environment from ~/.config/pawl/environment, one NAME=value a line.

For a server that runs all the time see pawl.service in the package.`,
		Example: "  pawl install-unit\n  pawl install-unit --print",
		RunE: func(*cobra.Command, []string) error {
			text, err := a.unitText()
			if err != nil {
				return err
			}
			if show {
				_, err = fmt.Fprint(a.Out, text)
				return err
			}
			if runtime.GOOS != "linux" {
				return usage("systemd is on Linux only; --print shows the unit")
			}
			return a.installUnit(text)
		},
	}
	cmd.Flags().BoolVar(&show, "print", false, "print it, and write nothing")
	return cmd
}

// installUnit writes the unit and prints how to enable it.
func (a resumeVerbs) installUnit(text string) error {
	dir, err := os.UserConfigDir()
	if err != nil {
		return fmt.Errorf("where is the folder for units? %w; --print shows the unit", err)
	}
	path := filepath.Join(dir, "systemd", "user", resumeUnit)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // units are read by systemd
		return err
	}
	a.say("%s is written. Switch it on, also for the time before you sign in:", path)
	a.say("  systemctl --user daemon-reload && systemctl --user enable --now %s", resumeUnit)
	a.say("  loginctl enable-linger")
	a.say("See what it does: journalctl --user -u %s", resumeUnit)
	return nil
}

// unitText returns the unit for this program and its database.
func (a resumeVerbs) unitText() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	if strings.Contains(program, string(filepath.Separator)+"go-build") {
		return "", usage("this program is gone when go run ends: install pawl, and call that one")
	}
	p, err := a.where()
	switch {
	case err != nil:
		return "", err
	case !p.InFile():
		return "", usage("a unit is for a database in a file; for PostgreSQL run pawl server, whose unit is in the " +
			"package")
	}
	database, err := filepath.Abs(p.Path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`[Unit]
Description=Carry open runs of Pawl on: %s
After=network-online.target

[Service]
Type=exec
ExecStart=%s resume --all --database %s
EnvironmentFile=-%%h/.config/pawl/environment
WorkingDirectory=%%h
# A run that failed, timed out or was cancelled is no failure of this unit.
SuccessExitStatus=1 124 130
Restart=on-abnormal
RestartSec=5s
# Pawl stops the processes of its steps itself; what is open goes on at the next start.
KillMode=mixed
TimeoutStopSec=60s

[Install]
WantedBy=default.target
`, unitEscape(database), unitWord(program), unitWord("sqlite:"+database)), nil
}

// unitEscape writes a text so that systemd substitutes nothing in it.
func unitEscape(text string) string { return strings.ReplaceAll(text, "%", "%%") }

// unitWord writes one word of a command line in a unit.
func unitWord(text string) string {
	text = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", "$$").Replace(unitEscape(text))
	if strings.ContainsAny(text, " \t'\"\\;") {
		return `"` + text + `"`
	}
	return text
}
