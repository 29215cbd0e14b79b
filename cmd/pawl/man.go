package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/topic"
	"github.com/pawl-dev/pawl/docs/reference"
)

// manCommand writes the manual pages. It is for those who make packages, so help does not list it.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write a manual page for each verb", Args: cobra.ExactArgs(1), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			epoch := time.Unix(0, 0).UTC() // the pages do not depend on when they were made
			root := cmd.Root()
			root.DisableAutoGenTag = true
			processes := root.PersistentFlags().Lookup("processes") // the default depends on the machine
			processes.Usage = "how many step processes may run at the same time (default: by the machine's processors)"
			return doc.GenManTree(root, &doc.GenManHeader{
				Title: "PAWL", Section: "1", Source: "Pawl", Manual: "Pawl", Date: &epoch,
			}, args[0])
		},
	}
}

// helpCommand explains a verb, or a word of the reference.
func helpCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND | TOPIC]", Short: "Help about a command, or about a key of flow files",
		Long: `Prints the help of a command, or what the reference says about a topic: a key of flow files (exec, retry,
timeout, hooks, cron, forEach), a page (expressions, types, limits, configuration, glossary), a section
of one (artifacts, containers), a function (split) or a variable (PAWL_OUTPUT). Where a command has the
same name, "pawl help topic NAME" prints the topic.`,
		Example: "  pawl help run rerun\n  pawl help exec\n  pawl help topic flow",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return completeHelp(cmd.Root(), args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return help(a, cmd.Root(), args) },
	}
}

// help prints the help of a verb, or what the reference says about a word.
func help(a *app, root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return root.Help()
	}
	verb, rest, err := root.Find(args)
	if err == nil && verb != root && len(rest) == 0 {
		verb.InitDefaultHelpFlag()
		return verb.Help()
	}
	book, err := topic.Read(reference.Pages)
	if err != nil {
		return err
	}
	if args[0] == "topic" && len(args) > 1 {
		args = args[1:]
	}
	word := strings.Join(args, " ")
	const narrowest, broadest = 40, 100
	if text := book.Find(word, min(max(a.width(), narrowest), broadest)); text != "" {
		_, err := fmt.Fprint(a.Out, strings.TrimRight(text, "\n")+"\n")
		return err
	}
	hint := book.Near(word)
	if near := suggest(root, args[0]); hint == "" && near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	if hint == "" {
		hint = `commands are in "pawl help", keys of flow files in "pawl help steps"`
	}
	return usage("no command and no topic is called %q; %s", word, hint)
}

// completeHelp lists what may follow.
func completeHelp(root *cobra.Command, args []string) []string {
	verb, rest, err := root.Find(args)
	if err != nil || len(rest) > 0 {
		return nil
	}
	var out []string
	for _, sub := range verb.Commands() {
		if sub.IsAvailableCommand() {
			out = append(out, sub.Name()+"\t"+sub.Short)
		}
	}
	if verb == root {
		if book, err := topic.Read(reference.Pages); err == nil {
			out = append(out, book.Topics()...)
		}
	}
	return out
}
