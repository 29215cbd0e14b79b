package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// reserved are flags whose variable Pawl sets itself, for the processes of steps. Such a process may call pawl again,
// and these variables must not change its flags. The value is the variable to use instead, "" for none.
var reserved = map[string]string{"output": "PAWL_OUTPUT_FORMAT", "step": "", "attempt": "", "run": ""}

// variable returns the environment variable of a flag; "" if the flag has none.
func variable(flag string) string {
	if name, ok := reserved[flag]; ok {
		return name
	}
	return "PAWL_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// settingMark annotates a flag that the environment and the configuration file may give.
const settingMark = "pawl_setting"

// ofCallers is the value of settingMark for flags that every command has, and that a server does not use.
const ofCallers = "of callers"

// settings declares flags that the environment and the configuration file may give: where Pawl works and how it prints.
// Every flag that is declared without it is read from the command line alone. So must be a flag that selects what one
// call works on, confirms it, or changes how it is done: a variable that somebody forgot would answer a question that
// is asked for safety, and cancel all open runs.
func settings(flags *pflag.FlagSet, declare func(*pflag.FlagSet)) { declareAs("", flags, declare) }

// settingsOfCallers declares settings that the file of a server cannot have.
func settingsOfCallers(flags *pflag.FlagSet, declare func(*pflag.FlagSet)) {
	declareAs(ofCallers, flags, declare)
}

func declareAs(mark string, flags *pflag.FlagSet, declare func(*pflag.FlagSet)) {
	declared := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	declare(declared)
	declared.VisitAll(func(f *pflag.Flag) { f.Annotations = map[string][]string{settingMark: {mark}} })
	flags.AddFlagSet(declared)
}

func isSetting(f *pflag.Flag) bool { return f.Annotations[settingMark] != nil }

func isOfCallers(f *pflag.Flag) bool { return slices.Contains(f.Annotations[settingMark], ofCallers) }

// amount is the value of a flag that means an amount of time. An amount in the configuration file is checked by every
// command, so that a mistake is reported before the amount is needed. One on the command line is checked where it is
// used, by an error that knows what it is for.
type amount string

func amountVar(flags *pflag.FlagSet, p *string, name, value, usage string) {
	*p = value
	flags.Var((*amount)(p), name, usage)
}

func (a *amount) Set(text string) error { *a = amount(text); return nil }

func (a *amount) String() string { return string(*a) }

func (a *amount) Type() string { return "string" }

// flagsByName are the flags whose names a configuration file could have as keys.
type flagsByName map[string]*pflag.Flag

// settings returns the names of those that it may have, in order.
func (fs flagsByName) settings() []string {
	var names []string
	for name, f := range fs {
		if isSetting(f) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// configFlag names another configuration file, for commands that have a file of their own.
const configFlag = "config"

// configure gives the flags that were not on the command line their values: environment, then configuration file.
func configure(cmd *cobra.Command) error {
	path, known := configOf(cmd)
	settings, err := readConfig(path, known)
	if err != nil {
		return err
	}
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || failed != nil {
			return
		}
		name, value := variable(f.Name), ""
		if name != "" {
			value = os.Getenv(name)
		}
		switch {
		case !isSetting(f):
			if value != "" && isMeant(cmd.Root(), f) {
				failed = fmt.Errorf("the environment variable %s is set, and --%[2]s counts only on the command line: "+
					"write --%[2]s there, or unset the variable", name, f.Name)
			}
		case value != "":
			if err := cmd.Flags().Set(f.Name, value); err != nil {
				failed = fmt.Errorf("the environment variable %s: %w", name, err)
			}
		default:
			for _, value := range settings[f.Name] {
				if err := cmd.Flags().Set(f.Name, value); err != nil {
					failed = fmt.Errorf("%s: %s: %w", path, f.Name, err)
				}
			}
		}
	})
	return failed
}

// isMeant reports whether the variable of a flag that is no setting can only be meant for this flag: it is neither the
// variable of a setting of another command, nor of a flag that every program has.
func isMeant(root *cobra.Command, f *pflag.Flag) bool {
	other := allFlags(root)[f.Name]
	return f.Name != configFlag && f.Annotations[cobra.FlagSetByCobraAnnotation] == nil &&
		(other == nil || !isSetting(other))
}

// configOf returns the configuration file of a command, and the keys that it may have. A setting below the name of a
// command is for the flags of that command alone.
func configOf(cmd *cobra.Command) (path string, known flagsByName) {
	f := cmd.Flags().Lookup(configFlag)
	if f == nil {
		return configPath(), allFlags(cmd.Root())
	}
	if path = f.Value.String(); path == "" {
		path = os.Getenv(variable(configFlag))
	}
	if path == "" {
		return configPath(), allFlags(cmd.Root())
	}
	return path, keysOf(cmd)
}

// keysOf returns the flags of one command that may be keys of its configuration file.
func keysOf(cmd *cobra.Command) flagsByName {
	known := flagsByName{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !isOfCallers(f) {
			known[f.Name] = f
		}
	})
	return known
}

func configPath() string {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "pawl", "config.yaml")
}

// nonEmpty matches a line that is neither blank nor a comment.
var nonEmpty = regexp.MustCompile(`(?m)^\s*[^#\s]`)

// readConfig reads the configuration file. A missing file counts as empty.
func readConfig(path string, known flagsByName) (map[string][]string, error) {
	if path == "" {
		return nil, nil
	}
	src, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && path == configPath() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !nonEmpty.Match(src) {
		return nil, nil
	}
	file := tree.Read(path, src)
	settings := file.Root()
	if err := file.Err(); err != nil {
		return nil, err
	}
	if !settings.IsMapping() {
		file.Fail(settings.Pos(), "", "the configuration is a mapping from flags to values, not %s", settings)
	}
	out := map[string][]string{}
	for _, f := range settings.Fields() {
		flag := known[f.Name]
		switch {
		case flag == nil:
			names := known.settings()
			file.Fail(f.Pos, nearestOr(f.Name, names, "known are the names of flags:"), "no flag is called %q", f.Name)
			continue
		case !isSetting(flag):
			file.Fail(f.Pos, "write it on the command line of each call that needs it",
				"--%s is for single calls, and is not a setting", f.Name)
			continue
		}
		values := []tree.Value{f.Value}
		switch {
		case f.Value.IsList():
			values = f.Value.Items()
		case f.Value.IsMapping() && f.Name == namespacesFlag:
			out[f.Name] = namespacesIn(f.Value)
			continue
		}
		for _, v := range values {
			if _, ok := flag.Value.(*amount); ok {
				if _, err := parseDuration(fmt.Sprint(v.Any())); err != nil {
					file.Fail(v.Pos(), "", "%s: %v", f.Name, err)
				}
			}
			out[f.Name] = append(out[f.Name], fmt.Sprint(v.Any()))
		}
	}
	return out, file.Err()
}

// allFlags returns the flags of all commands. Of those with one name it is a setting, if any of them is.
func allFlags(root *cobra.Command) flagsByName {
	known := flagsByName{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		add := func(f *pflag.Flag) {
			if known[f.Name] == nil || isSetting(f) {
				known[f.Name] = f
			}
		}
		cmd.PersistentFlags().VisitAll(add)
		cmd.LocalNonPersistentFlags().VisitAll(add)
		for _, sub := range cmd.Commands() {
			if sub.Name() != "completion" {
				walk(sub)
			}
		}
	}
	walk(root)
	return known
}

// nearestOr hints at the known word that was most likely meant. If none is near, it lists them all after the text or.
func nearestOr(word string, known []string, or string) string {
	if hint := nearest.Hint(word, known); hint != "" {
		return hint
	}
	return or + " " + strings.Join(known, ", ")
}
