package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/user"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/part"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/daemon/database"
	"github.com/pawl-dev/pawl/internal/daemon/folder"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/reach"
	"github.com/pawl-dev/pawl/internal/worker"
)

// streams are the command's input and outputs; tests give their own.
type streams struct {
	In       *os.File
	Out, Err io.Writer
}

// app is one call of the command: its streams and the flags that every verb has.
type app struct {
	streams
	database         string
	retention        string   // how long closed runs are kept while this process has the database; empty: forever
	server           string   // the address that --server gives; empty: a database is opened
	namespace        string   // a namespace of that server; empty: that of the token
	tokenFile        string   // the file with the token that is shown to that server
	ca               string   // the file with the certificates that are trusted for it
	secrets          []string // where secrets come from: NAME=env:VARIABLE
	envAllow         []string // variables that steps may have; empty: all but Pawl's own
	artifacts        string   // where files of steps are kept; empty: beside the database
	containerProgram string   // the program for containers of steps; empty: docker or podman
	slots            int      // how many processes of steps run at once; 0: worker.DefaultProcesses
	output           string
	noColor          bool
	actor            string
	reason           string

	flows    workflows.Store // flows read so far
	folder   *folder.Folder  // the flows that a server starts by name; nil: this is no server
	guard    *guarding       // the settings of pawl server; nil: this is another command
	tracer   part.Tracer     // a server's tracer; nil: the environment names no collector
	metrics  part.Metrics    // metrics of a server, for its default namespace
	given    []string        // flags of the command line
	virtual  bool            // the clock of the runs is stopped until somebody moves it
	temporal string          // where Temporal's protocol is spoken; empty: nowhere
	// webhookAllow has the addresses of private networks that webhooks may reach, reach decides about those of http
	// steps; nil: all are reached.
	webhookAllow []netip.Prefix
	reach        *reach.Policy

	clock  func(ctx context.Context) (at api.Time, stands bool) // the server's or database's; nil: not opened
	joined bool                                                 // start found another process that has the engine
	told   map[string]int                                       // the number of the last event that was printed, by run
	// outputs has the attempts of which this command has printed lines, and up to where.
	outputs map[attemptKey]*attemptOutput
}

const rootLong = `Pawl runs durable workflows. Their timeouts and retries are exact and survive crashes.

Start a flow file and watch it:        pawl run flow.yaml
Carry on what was left:                pawl resume
See what ran, and why it ended:        pawl run list; pawl run show @last

A RUN is a run id, the unique beginning of one (six characters or more), a workflow id, or @last.

Settings that are not given are read from the environment (--server: PAWL_SERVER; -o: PAWL_OUTPUT_FORMAT),
then from the configuration file
($XDG_CONFIG_HOME/pawl/config.yaml, keys are flag names). Flags of single calls, such as filters, are not settings.

Exit status: 0 succeeded, 1 failed, 2 wrong usage or an invalid file, 3 no such run, step or schedule, 124 timed out,
130 cancelled, or left for later.`

// execute runs one command line and returns its exit status.
func execute(ctx context.Context, std streams, args []string) int {
	a := &app{streams: std}
	root := a.rootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if outputGone(err) { // as with "pawl run watch RUN | head": nobody reads a message either
		return exitCancelled
	}
	var status *statusError
	if !errors.As(err, &status) || status.err != nil {
		fmt.Fprintf(a.Err, "pawl: %s\n", strings.TrimSuffix(err.Error(), "\n"))
	}
	return statusOf(err)
}

func (a *app) rootCommand() *cobra.Command {
	a.told = map[string]int{}
	root := &cobra.Command{
		Use: "pawl", Short: "Durable workflows with exact timeouts and retries", Long: rootLong,
		SilenceErrors: true, SilenceUsage: true,
		Args: unknownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			database, server := cmd.Flags().Changed("database"), cmd.Flags().Changed("server")
			namespace := cmd.Flags().Changed("namespace")
			a.given = nil
			cmd.Flags().Visit(func(f *pflag.Flag) { a.given = append(a.given, f.Name) })
			if err := configure(cmd); err != nil {
				return asUsage(err)
			}
			switch {
			case database && server:
				return usage("--database and --server exclude each other: a server has its own database")
			case database:
				a.server = "" // that of the environment
				if !namespace {
					a.namespace = ""
				}
			}
			return asUsage(a.checkOutput(cmd))
		},
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%s\nSee %q.", flagError(err), cmd.CommandPath()+" --help")
	})
	root.Version = buildVersion()
	root.SetVersionTemplate(versionLine())
	addFlags(a, root.PersistentFlags())
	root.AddCommand(
		runVerbs{a}.runCommand(), runVerbs{a}.overviewCommand(), runVerbs{a}.attentionCommand(),
		runVerbs{a}.queuesCommand(), resumeVerbs{a}.resumeCommand(),
		resumeVerbs{a}.installUnitCommand(), stepVerbs{a}.stepCommand(),
		eventVerbs{a}.eventCommand(), scheduleVerbs{a}.scheduleCommand(), timeVerbs{a}.timeCommand(),
		flowVerbs{a}.flowCommand(), flowVerbs{a}.initCommand(),
		policyVerbs{a}.policyCommand(), databaseVerbs{a}.schemaCommand(),
		databaseVerbs{a}.doctorCommand(), databaseVerbs{a}.pruneCommand(), serverVerbs{a}.devCommand(),
		workerVerbs{a}.workerCommand(), serverVerbs{a}.serverCommand(), clusterVerbs{a}.clusterCommand(),
		tokenVerbs{a}.tokenCommand(), tokenVerbs{a}.auditCommand(), databaseVerbs{a}.backupCommand(),
		databaseVerbs{a}.restoreCommand(), webhookVerbs{a}.webhookCommand(), a.manCommand(),
		a.versionCommand(),
	)
	root.SetHelpCommand(helpCommand(a))
	root.InitDefaultCompletionCmd()
	group(root, "completion")
	a.completeFlags(root)
	guard(root)
	return root
}

// addFlags adds the flags that every verb has.
func addFlags(a *app, flags *pflag.FlagSet) {
	settings(flags, func(flags *pflag.FlagSet) {
		flags.StringVar(&a.database, "database", "",
			"sqlite:PATH, postgres://… or memory: (default "+database.DefaultHint+")")
		flags.StringArrayVar(&a.secrets, "secret", nil,
			"where a secret comes from: NAME=env:VARIABLE, NAME=file:PATH or NAME=command:LINE; repeatable")
		flags.StringSliceVar(&a.envAllow, "env-allow", nil,
			"variables of the environment that steps may have beside PATH, HOME and the like: NAME or PREFIX_*; "+
				"repeatable (default: all but those of Pawl itself)")
		flags.IntVar(&a.slots, "processes", 0,
			fmt.Sprintf("how many step processes may run at the same time (default %d)", worker.DefaultProcesses()))
		flags.StringVar(&a.containerProgram, "container-program", "",
			"program for the containers of steps: docker, podman or the path of one (default: docker, or else podman)")
		flags.StringVar(&a.artifacts, "artifacts", "",
			"where files that steps keep are: a folder, or s3://BUCKET/PREFIX (default: beside the database)")
		amountVar(flags, &a.retention, "retention", "",
			"delete runs that ended longer ago than this, while pawl runs: 30d (default: keep them)")
	})
	settingsOfCallers(flags, func(flags *pflag.FlagSet) {
		flags.StringVar(&a.server, "server", "", "work through a server, such as http://127.0.0.1:7295 of pawl dev")
		flags.StringVar(&a.tokenFile, "token-file", "", "file with the token for --server (also: PAWL_TOKEN)")
		flags.StringVar(&a.namespace, "namespace", "",
			"namespace to use, if the token is for several (default: the token's)")
		flags.StringVar(&a.ca, "ca", "", "PEM file with the CA certificates for --server (default: the system's)")
		flags.StringVarP(&a.output, "output", "o", "", "table, json or yaml; where a run is followed also follow, "+
			"failed, github or none (default table)")
		flags.BoolVar(&a.noColor, "no-color", false, "no colours (also: NO_COLOR)")
		flags.StringVar(&a.actor, "actor", "", "who asks, for the history (default $USER)")
		flags.StringVar(&a.reason, "reason", "", "why, for the history")
	})
}

// badValue matches the flag library's error about a value that does not fit.
var badValue = regexp.MustCompile(
	`^invalid argument ("(?:[^"\\]|\\.)*") for "(?:-\w, )?(--[\w-]+)" flag: strconv\.Parse(\w+): `)

// flagError describes what is wrong with a flag, without the names of functions.
func flagError(err error) string {
	m := badValue.FindStringSubmatch(err.Error())
	if m == nil {
		return err.Error()
	}
	wanted := map[string]string{"Int": "a whole number", "Float": "a number", "Bool": "true or false"}[m[3]]
	if wanted == "" {
		wanted = "a value"
	}
	return fmt.Sprintf("%s takes %s, not %s", m[2], wanted, m[1])
}

// guard makes wrong arguments of every command end with the status for wrong usage, and fits its texts to a terminal.
func guard(cmd *cobra.Command) {
	cmd.Long = folded(cmd.Long)
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			// Cobra reports a count, or takes the word for a verb; a person wants to know what to write.
			counts := err != nil && strings.Contains(err.Error(), "arg(s)")
			if counts || err != nil && !cmd.HasSubCommands() && strings.HasPrefix(err.Error(), "unknown command") {
				given := count(len(args), "argument") + " cannot be used here"
				switch {
				case len(args) == 0:
					given = "nothing is given"
				case !counts:
					given = fmt.Sprintf("it does not take %q", args[0])
				}
				return usage("%s; write %s\nSee %q.", given, cmd.UseLine(), cmd.CommandPath()+" --help")
			}
			return asUsage(err)
		}
	}
	for _, sub := range cmd.Commands() {
		guard(sub)
	}
}

// folded breaks the paragraphs of a text at 80 columns; lines that are laid out by hand stay as they are.
func folded(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.Contains(p, "  ") {
			paragraphs[i] = strings.Join(screen.Wrap(p, 80), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// noun makes a command that only groups verbs.
func noun(use, short, long string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: unknownVerb, RunE: chooseVerb}
	cmd.AddCommand(verbs...)
	return cmd
}

func chooseVerb(cmd *cobra.Command, _ []string) error {
	fmt.Fprint(cmd.ErrOrStderr(), cmd.UsageString())
	return usage("%s what? Choose a verb", cmd.CommandPath())
}

// group turns a command of cobra's own into one that only groups verbs.
func group(root *cobra.Command, name string) {
	for _, cmd := range root.Commands() {
		if cmd.Name() == name {
			cmd.Args, cmd.RunE = unknownVerb, chooseVerb
		}
	}
}

// unknownVerb refuses a word that is not a verb of the command, and names the nearest one.
func unknownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := suggest(cmd, args[0]); near != "" {
		return fmt.Errorf("%s; did you mean %q?", text, near)
	}
	return fmt.Errorf("%s\nSee %q.", text, cmd.CommandPath()+" --help")
}

// foreignVerbs are the words by which other programs call what a verb does.
var foreignVerbs = map[string]string{
	"ps": "run list", "status": "run show", "show": "run show", "start": "run", "stop": "run cancel",
	"kill": "run terminate", "lint": "flow validate", "new": "init", "serve": "server", "up": "dev",
	"runs": "run list", "flows": "flow list",
}

// suggest returns the command line that a misspelt verb most likely stands for, or "".
func suggest(cmd *cobra.Command, word string) string {
	var names []string
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	if verb := foreignVerbs[word]; verb != "" && !cmd.HasParent() {
		return cmd.CommandPath() + " " + verb
	}
	if near := nearest.Word(word, names); near != "" {
		return cmd.CommandPath() + " " + near
	}
	if cmd.HasParent() {
		return ""
	}
	for _, noun := range []string{"run", "flow", "step", "event", "schedule", "server"} { // pawl list is pawl run list
		if sub, _, err := cmd.Find([]string{noun, word}); err == nil && sub.Name() == word {
			return sub.CommandPath()
		}
	}
	return ""
}

// color reports whether an output takes styles.
func (a *app) color(w io.Writer) bool {
	return !a.noColor && os.Getenv("NO_COLOR") == "" && isTerminal(w) && os.Getenv("TERM") != "dumb"
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && f != nil && term.IsTerminal(int(f.Fd()))
}

// width returns the number of columns of the output, or 100 if it is not a terminal.
func (a *app) width() int {
	if f, ok := a.Out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 100
}

// who returns the actor of audited operations.
func (a *app) who() string {
	for _, name := range []string{a.actor, os.Getenv("USER"), os.Getenv("LOGNAME")} {
		if name != "" {
			return name
		}
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}
