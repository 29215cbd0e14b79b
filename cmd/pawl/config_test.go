package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var rewriteFlags = flag.Bool("rewrite", false, "write testdata/flags.txt anew")

// TestFlagsAreJudged compares all flags, and who may give each, with a list that somebody has read. A new flag is for
// the command line alone until its declaration says otherwise, and the list changes with it.
func TestFlagsAreJudged(t *testing.T) {
	t.Parallel()
	var lines []string
	eachCommand((&app{}).rootCommand(), func(cmd *cobra.Command) {
		eachFlag(cmd, func(f *pflag.Flag) {
			by := "command line"
			switch {
			case f.Name == configFlag:
				by = "environment"
			case isOfCallers(f):
				by = "environment, file of callers"
			case isSetting(f):
				by = "environment, file"
			}
			lines = append(lines, fmt.Sprintf("%-40s %s", cmd.CommandPath()+" --"+f.Name, by))
		})
	})
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	if *rewriteFlags {
		if err := os.WriteFile("testdata/flags.txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Split(string(want), "\n")
	for _, line := range lines {
		if !slices.Contains(known, line) {
			t.Errorf("%s: is this right? Then run this test with -rewrite", strings.Join(strings.Fields(line), " "))
		}
	}
	if got != string(want) && !t.Failed() {
		t.Error("testdata/flags.txt has flags that are gone: run this test with -rewrite")
	}
}

// TestVariablesOfCallsAreRefused gives each flag that is not a setting by the environment. The flag must not get the
// value. The caller is told which flag to write, unless the variable is that of another command's setting.
func TestVariablesOfCallsAreRefused(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	refused := map[string]bool{}
	eachCommand((&app{}).rootCommand(), func(cmd *cobra.Command) {
		eachFlag(cmd, func(f *pflag.Flag) {
			name := variable(f.Name)
			if isSetting(f) || name == "" || f.Name == configFlag {
				return
			}
			os.Setenv(name, "1")
			defer os.Unsetenv(name)
			err := configure(cmd)
			if f.Changed {
				t.Errorf("%s: %s sets --%s", cmd.CommandPath(), name, f.Name)
			}
			if err != nil && strings.Contains(err.Error(), "write --"+f.Name+" there") {
				refused[f.Name] = true
			} else if other := allFlags(cmd.Root())[f.Name]; !isSetting(other) {
				t.Errorf("%s: %s is ignored without a word: %v", cmd.CommandPath(), name, err)
			}
		})
	})
	for _, name := range []string{"open", "workflow", "dry", "every", "older-than", "force"} {
		if !refused[name] {
			t.Errorf("nothing refused the variable of --%s", name)
		}
	}
}

// TestSettingsAreOnTheirPage checks that the reference lists the settings of all commands.
func TestSettingsAreOnTheirPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	(&app{}).rootCommand().PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if isSetting(f) && !strings.Contains(string(page), "`"+f.Name+"`") {
			t.Errorf("configuration.md does not list the setting %s", f.Name)
		}
	})
}

func eachCommand(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		if sub.Name() != "completion" {
			eachCommand(sub, do)
		}
	}
}

// eachFlag calls a function with the flags that a command declares itself.
func eachFlag(cmd *cobra.Command, do func(*pflag.Flag)) {
	seen := map[string]bool{}
	once := func(f *pflag.Flag) {
		if !seen[f.Name] {
			seen[f.Name] = true
			do(f)
		}
	}
	cmd.PersistentFlags().VisitAll(once)
	cmd.LocalNonPersistentFlags().VisitAll(once)
}
