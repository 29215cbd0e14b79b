package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
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
