package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/given"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/policy"
)

// startFlags are the flags of `pawl run FILE`.
type startFlags struct {
	input    []string
	flow     string // the name of a flow that the server or the database has
	id, key  string
	timeout  string
	deadline string
	detach   bool
	dry      bool
	now      bool // a flow with a cron runs once at once
	json     bool
	quiet    bool
	labels   []string
	headers  []string
	queue    api.RunQueue
	sources  sources
}

func (a runVerbs) runCommand() *cobra.Command {
	var f startFlags
	cmd := &cobra.Command{
		Use: "run FILE", Short: "Start a flow and watch it; or look at runs and operate on them",
		Long: `Starts a flow file on the embedded database and shows it until it ends: each step with its attempt, the
countdown to the next one and why, a bar against the deadline that binds it. What happened is on disk before it is
shown: kill the process, pull the plug, and "pawl resume" goes on, every deadline where it was.

Where the output is not a terminal, each event is a line; with --json a JSON object. With -o follow every line that a
step prints is printed as it comes, with -o failed what an attempt printed once it has failed; in GitHub Actions and
GitLab CI as a group for each attempt. -o github leaves these lines as they are, so that problem matchers find them,
marks steps that failed, and adds the run to the summary of the job. Otherwise the end says what a failed step printed
last; -o none leaves out what a failed step printed, and the events stay. Ctrl-C asks whether to cancel the run or to
leave it for later.

A workflow of another system is converted first (see "pawl flow convert"); put the system's name before the file, as in
steep:workflow.yaml. In a flow file the policies of Temporal and Zart may stand as they are, below temporal: and
zart:.

A flow with a cron has a schedule, with its name or that of --id: the command makes it, or changes it where the file
has changed, says when it fires next, and carries it and its runs until Ctrl-C. With --now it runs once at once, too:
what --input, --label, --header and --timeout say is then for that run alone. Without it they are for all runs of the
schedule. --detach leaves it to a server. See "pawl schedule".

With --flow NAME it starts a flow that the server or the database has, in place of a file: the newest version.

If a file has the name of a command, write ./list.`,
		Example: "  pawl run order.yaml --input orderId=42\n  pawl run order.yaml --input @order.json --id order-42 " +
			"--timeout 30m\n" +
			"  pawl run show @last",
		Args: cobra.ArbitraryArgs, Annotations: map[string]string{following: "yes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.flow != "" && len(args) > 0:
				return usage("--flow %s names a flow that the server or the database has: leave out the file %s",
					f.flow, args[0])
			case f.flow != "":
				return a.runNamed(cmd, &f)
			case len(args) == 0:
				fmt.Fprint(cmd.ErrOrStderr(), cmd.UsageString())
				return usage("name a flow file, or a verb such as list")
			case len(args) > 1:
				return usage("pawl run takes one file, not %d: %s; values for its input are given as "+
					"--input name=value",
					len(args), strings.Join(args, " "))
			}
			return a.runFile(cmd, args[0], &f)
		},
	}
	f.flags(cmd.Flags())
	cmd.AddCommand(
		a.runListCommand(), a.runShowCommand(), a.runForecastCommand(),
		a.runLogsCommand(), a.runArtifactsCommand(), a.runWatchCommand(), a.runEventsCommand(),
		a.runHistoryCommand(), a.runDiffCommand(), a.runReportCommand(),
		a.runCancelCommand(), a.runTerminateCommand(),
		a.runPauseCommand(), a.runResumeCommand(), a.runRetryCommand(), a.runRestartCommand(),
		a.runRerunCommand(), a.runExtendCommand(), a.runBulkCommand(),
		a.runBackfillCommand(),
	)
	return cmd
}

// flags adds the flags.
func (f *startFlags) flags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.input, "input", nil, "name=value (JSON, else text), or @file.json; repeatable")
	flags.StringVar(&f.flow, "flow", "", "start this flow of the server or the database by its name, in place of a "+
		"file (pawl flow list)")
	flags.StringVar(&f.id, "id", "", "workflow id: unique among open runs")
	flags.StringVar(&f.key, "key", "", "idempotency key: starting again with this key follows the existing run "+
		"instead of making another")
	flags.StringVar(&f.timeout, "timeout", "", "run limit, instead of the flow's: 30m")
	flags.StringVar(&f.deadline, "deadline", "", "instant the run does not live past: 2026-01-02T15:04:05Z")
	flags.BoolVar(&f.now, "now", false, "of a flow with a cron: run it once at once, too; --input and others are for "+
		"that run alone")
	flags.BoolVar(&f.detach, "detach", false, "start it and leave: pawl resume carries it on")
	flags.BoolVar(&f.dry, "dry", false, "show what its steps would do, and start nothing")
	flags.BoolVar(&f.json, "json", false, "one JSON object an event")
	flags.BoolVar(&f.quiet, "quiet", false, "print the output and nothing else")
	flags.StringArrayVar(&f.labels, "label", nil, "key=value, to find the run by with pawl run list; repeatable")
	flags.StringVar(&f.queue.Name, "queue", "", "queue to start it into, instead of the flow's: it begins when the "+
		"queue admits it")
	flags.StringVar(&f.queue.Key, "queue-key", "", "key by which the queue's limits count it, instead of the flow's")
	flags.Int32Var(&f.queue.Priority, "priority", 0, "of the runs that wait in the queue, the highest goes first")
	flags.StringArrayVar(&f.headers, "header", nil, "name=value that goes along to its steps and children; repeatable")
	f.sources.flags(flags)
}

func (a runVerbs) runFile(cmd *cobra.Command, file string, f *startFlags) error {
	if _, err := os.Stat(file); err != nil && file != "-" && !strings.ContainsAny(file, "./") {
		if near := suggest(cmd, file); near != "" {
			return usage("there is no file %q, and no verb of that name; did you mean %q?", file, near)
		}
		return usage("there is no file %q, and no verb of that name\nSee %q.", file, "pawl run --help")
	}
	c, err := a.load(file, &f.sources)
	if err != nil {
		return err
	}
	return a.runCompiled(cmd, c, f)
}

// runNamed starts a flow that the server or the database has.
func (a runVerbs) runNamed(cmd *cobra.Command, f *startFlags) error {
	if err := f.sources.check(""); err != nil {
		return err
	}
	var c *compiled
	err := flowVerbs(a).withCatalog(cmd.Context(), func(flows api.Catalog) error {
		found, err := flows.Flow(cmd.Context(), f.flow, 0)
		if api.CodeOf(err) == api.CodeNotFound {
			return fmt.Errorf("%w\npawl flow list shows what can be started by name", err)
		}
		if err != nil {
			return err
		}
		stored, err := service.Definition(api.Definition{
			ID: found.Definition, Kind: found.Kind, Name: found.Name, Source: found.Source,
		})
		if err == nil {
			c, err = a.stored(stored)
		}
		return err
	})
	if err != nil {
		return err
	}
	a.joined = false // it is determined again when the run is started
	return a.runCompiled(cmd, c, f)
}

// runCompiled starts a flow that was read.
func (a runVerbs) runCompiled(cmd *cobra.Command, c *compiled, f *startFlags) error {
	for _, name := range []string{"id", "key"} {
		if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
			return usage("--%s is empty: leave it out, or give it a value", name)
		}
	}
	if f.dry {
		return a.dryRun(c, f.input)
	}
	req, err := a.startRequest(c, f)
	if err != nil {
		return err
	}
	if err := a.checkPlaceholders(cmd.Context(), c.Doc, !f.detach); err != nil {
		return err
	}
	if (f.json || f.quiet) && printsSteps(a.output) {
		return usage("-o %s and --json or --quiet exclude each other", a.output)
	}
	how := a.chooseTelling(f.json, f.quiet)
	if how != tellQuiet && how != tellJSON {
		a.warnOf(c)
	}
	if c.Doc.Cron != nil {
		return a.runSchedule(cmd.Context(), c, f, &req, how)
	}
	if f.now {
		return usage("--now is for a flow with a cron: without one it runs once, at once")
	}
	begin := a.starterOf(req, f.flow)
	return a.startRun(cmd.Context(), begin, !f.detach, how)
}

// starterOf returns what starts a run: of the server's flow of that name, where there is one.
func (a runVerbs) starterOf(req api.StartRequest, named string) starter {
	ours := false // the key
	return func(ctx context.Context, svc api.Service) (started api.Started, err error) {
		server, remote := svc.(*httpapi.Client)
		if remote && a.server == "" && req.Key == "" { // the process that holds the database may end meanwhile
			req.Key, ours = rand.Text(), true
		}
		if named != "" && remote { // the role operate may start flows of the server, and bring none
			started, err = server.StartNamed(ctx, named, req)
		} else {
			started, err = svc.Start(ctx, req)
		}
		if ours {
			started.Existing = false // it is the run that this command has started
			if unanswered(err) {
				err = &api.Error{Code: api.CodeClosed, Message: err.Error(), Err: err} // it is safe to repeat
			}
		}
		return started, startError(err, req.WorkflowID)
	}
}

// warnOf prints warnings before a flow is run: limits that contradict each other, and steps that this command cannot
// execute.
func (a runVerbs) warnOf(c *compiled) {
	for _, w := range lint(c.Doc, false) {
		if w.isWarning() {
			fmt.Fprintf(a.Err, "pawl: %s\n", screen.Clean(w.String()))
		}
	}
	for _, s := range c.Doc.Steps {
		if _, exec := s.Action.(*flow.Exec); exec && s.Concurrency > a.processes() && a.server == "" {
			fmt.Fprintf(a.Err, "pawl: step %q: %d of its items run at once here, not %d; see --processes\n", s.Name,
				a.processes(), s.Concurrency)
		}
	}
	a.warnOfTasks(c, nil)
}

// starter starts a run on an open service.
type starter func(ctx context.Context, svc api.Service) (api.Started, error)

// startRun starts a run and, unless it is detached, carries it to its end.
func (a *app) startRun(ctx context.Context, begin starter, carry bool, how telling) error {
	m, started, err := a.begun(ctx, begin, carry)
	again := false
	for otherEnded(err) && a.joined && a.server == "" { // the process that held the database has ended meanwhile
		a.joined, again = false, true
		m, started, err = a.begun(ctx, begin, carry)
	}
	if err != nil {
		return err
	}
	if carry {
		if started.Existing || again {
			err = m.carry(ctx, started.Run, true)
		}
		if err != nil {
			return errors.Join(err, m.close())
		}
		if started.Existing && how != tellQuiet && how != tellJSON {
			fmt.Fprintf(a.Err, "pawl: the idempotency key was used before: this is run %s\n", started.Run)
		}
		return a.carry(ctx, m, []string{started.Run}, how)
	}
	if store, err := a.secretStore(); err == nil && m.remote == nil && m.place.InFile() && !started.Existing {
		given.Note(m.place.LogDir(), started.Run, store) // whoever resumes it is told what differs
	}
	if err := m.close(); err != nil {
		return err
	}
	return a.tellStarted(started)
}

// begun opens the database and starts a run on it. If it fails, it closes the database.
func (a *app) begun(ctx context.Context, begin starter, carry bool) (*machine, api.Started, error) {
	m, err := a.start(ctx, carry)
	if err != nil {
		return nil, api.Started{}, err
	}
	if m.place.Memory && !carry {
		refused := usage("--detach with a database in memory: would lose the run; use --database sqlite:PATH")
		return nil, api.Started{}, errors.Join(refused, m.close())
	}
	started, err := begin(ctx, m.svc)
	if err != nil {
		return nil, started, errors.Join(err, m.close())
	}
	return m, started, nil
}

func (a *app) tellStarted(started api.Started) error {
	if a.structured() {
		return a.print(started)
	}
	state := "started"
	if started.Existing {
		state = "was started before"
	}
	a.say("%s", started.Run)
	on := "carry it on with: pawl resume " + live.Short(started.Run)
	if a.joined {
		on = "another process carries it on; watch it with: pawl run watch " + live.Short(started.Run)
	}
	fmt.Fprintf(a.Err, "pawl: %s; %s\n", state, on)
	return nil
}

// startRequest puts together what starts the run. What the flow does not take is refused before a database is opened.
func (a *app) startRequest(c *compiled, f *startFlags) (api.StartRequest, error) {
	var req api.StartRequest
	input, err := a.readInput(c, f.input)
	if err != nil {
		return req, asUsage(err)
	}
	if ofSchedule := f.now && len(f.input) == 0 && c.Doc.Cron != nil; !ofSchedule { // it has an input already
		if _, err := c.Doc.Start(input); err != nil {
			return req, asUsage(err)
		}
	}
	d, err := a.flows.Keep(c)
	if err != nil {
		return req, err
	}
	req = api.StartRequest{
		Definition: d, Input: input, WorkflowID: f.id, Key: f.key, Actor: a.who(), Reason: a.reason,
	}
	if req.Labels, err = readLabels(f.labels); err != nil {
		return req, err
	}
	if req.Headers, err = readHeaders(f.headers); err != nil {
		return req, err
	}
	if f.queue != (api.RunQueue{}) {
		req.Queue = &f.queue
	}
	if f.timeout != "" {
		if err := decode.Bare(f.timeout); err != nil {
			return req, usage("--timeout %w", err)
		}
		if req.Timeout, err = policy.LimitRun.DecodeLimit(f.timeout); err != nil {
			return req, usage("--timeout: %w", err)
		}
		req.Timeout.Origin = service.GivenTimeout
	}
	if f.deadline != "" {
		at, err := time.Parse(time.RFC3339, f.deadline)
		if err != nil {
			return req, usage("--deadline %q is not an instant; write it as 2026-01-02T15:04:05Z", f.deadline)
		}
		if !at.After(clockNow()) {
			return req, usage("--deadline %s lies in the past", f.deadline)
		}
		req.Deadline, req.Origin = api.At(at), "--deadline"
	}
	return req, nil
}

// startError adds what a person can do to a refused start.
func startError(err error, workflowID string) error {
	var refused *api.Error
	if isConflict(err) && errors.As(err, &refused) && workflowID != "" && refused.ID == workflowID {
		return fmt.Errorf("a run with the workflow id %q is open: see it with pawl run show %s, carry it on with "+
			"pawl resume %s, or choose another --id",
			workflowID, workflowID, workflowID)
	}
	return err
}
