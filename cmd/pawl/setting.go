package main

import (
	"slices"

	"github.com/spf13/pflag"
)

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
