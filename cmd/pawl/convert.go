package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/flow"
)

func (a flowVerbs) flowConvertCommand() *cobra.Command {
	var s sources
	var from, out string
	var force bool
	cmd := &cobra.Command{
		Use: "convert --from SYSTEM FILE", Short: "Write another system's workflow as a flow file",
		Args: cobra.ExactArgs(1),
		Long: `Translates a workflow of another system (` + strings.Join(systemNames, ", ") + `) into flow files.
Fields that have no counterpart are named with their place; none is dropped silently. Flows that the workflow's steps
start are written beside the first.`,
		Example: "  pawl flow convert --from steep workflow.yaml --services services.yaml -o flow.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			system, path := cutSystem(args[0])
			switch {
			case from == "":
				from = system
			case system != "" && system != from:
				return usage("--from %s and %s contradict each other", from, args[0])
			}
			if from == "" {
				return usage("say which system the file is from: --from %s", strings.Join(systemNames, ", --from "))
			}
			return a.convert(from, path, out, force, &s)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "the system: "+strings.Join(systemNames, ", "))
	flags.StringVarP(&out, "output", "o", "", "the flow file to write; default: the standard output")
	flags.BoolVar(&force, "force", false, "write over files that are there")
	s.flags(flags)
	return cmd
}

func (a flowVerbs) convert(system, path, out string, force bool, s *sources) error {
	c, err := a.translate(system, path, s)
	if err != nil {
		return err
	}
	a.tellNotes(c.Notes, true)
	if out == "" && len(c.Children) > 0 {
		return usage("the workflow becomes %d files; name the first one: -o flow.yaml", 1+len(c.Children))
	}
	if out == "" {
		text, err := flow.Encode(c.Flow)
		if err != nil {
			return err
		}
		_, err = a.Out.Write(text)
		return err
	}
	if err := a.writeFlow(out, c.Flow, force); err != nil {
		return err
	}
	for _, child := range c.Children {
		if err := a.writeFlow(filepath.Join(filepath.Dir(out), child.Name+".yaml"), child, force); err != nil {
			return err
		}
	}
	return nil
}

// writeFlow writes a flow into a file, which must not be there yet unless it may be replaced.
func (a flowVerbs) writeFlow(path string, doc *flow.Document, force bool) error {
	text, err := flow.Encode(doc)
	if err != nil {
		return err
	}
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(path, mode, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return usage("%s is there already; choose another name, or --force to write over it", path)
	}
	if err != nil {
		return asUsage(err)
	}
	_, err = file.Write(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "pawl: wrote %s: flow %q, %s\n", path, doc.Name, count(len(doc.Steps), "step"))
	return nil
}
