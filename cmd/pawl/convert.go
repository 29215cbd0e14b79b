package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/systems"
)

func (a flowVerbs) flowConvertCommand() *cobra.Command {
	var s sources
	var from, out string
	var force bool
	cmd := &cobra.Command{
		Use: "convert --from SYSTEM FILE", Short: "Write another system's workflow as a flow file",
		Args: cobra.ExactArgs(1),
		Long: `Translates a workflow of another system (` + strings.Join(systems.Names(), ", ") + `) into flow files.
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
				return usage("say which system the file is from: --from %s", strings.Join(systems.Names(), ", --from "))
			}
			return a.convert(from, path, out, force, &s)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "the system: "+strings.Join(systems.Names(), ", "))
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

func (a flowVerbs) flowFmtCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "fmt FILE…", Short: "Format flow files: space, empty lines, the line for editors",
		Args: cobra.MinimumNArgs(1),
		Long: `Writes the files without superfluous space and empty lines, and with a first line that tells an editor
with the YAML language server where the schema of flow files is. Indentation, comments, the order of keys and the form
of values stay as they are. A file that is wrong is left alone. With - the formatted text goes to stdout.`,
		Example: "  pawl flow fmt flows/*.yaml\n  pawl flow fmt --check flows/*.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			differ := false
			for _, file := range args {
				changed, err := a.formatFile(file, check)
				if err != nil {
					return err
				}
				differ = differ || changed
			}
			if check && differ {
				return &statusError{status: exitFailed}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; name the files that are not formatted, with status 1")
	return cmd
}

// formatFile formats one file, and reports whether it was not formatted.
func (a flowVerbs) formatFile(file string, check bool) (changed bool, err error) {
	name, src, err := a.readFile(file)
	if err != nil {
		return false, asUsage(err)
	}
	text, err := a.formatted(name, src)
	if err != nil {
		return false, asUsage(err)
	}
	changed = string(text) != string(src)
	switch {
	case file == "-" && !check:
		_, err = a.Out.Write(text)
		return changed, err
	case !changed:
		return false, nil
	case !check:
		info, err := os.Stat(file)
		if err == nil {
			err = os.WriteFile(file, text, info.Mode())
		}
		if err != nil {
			return false, err
		}
	}
	a.say("%s", file)
	return true, nil
}

// formatted returns a flow file as it should look. The new text is parsed and compared with the old one, so that its
// meaning stays the same.
func (a flowVerbs) formatted(name string, src []byte) ([]byte, error) {
	before, err := a.parseFlow(name, src)
	if err != nil {
		return nil, err
	}
	if trimmed := bytes.TrimSpace(src); len(trimmed) > 0 && trimmed[0] == '{' {
		return nil, fmt.Errorf("%s is JSON; only YAML is formatted", name)
	}
	file, err := parser.ParseBytes(src, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var out strings.Builder
	if !strings.Contains(string(src), "yaml-language-server:") {
		out.WriteString(schemaLine + "\n")
	}
	out.WriteString(strings.TrimRight(file.String(), "\n") + "\n")
	text := []byte(out.String())
	after, err := a.parseFlow(name, text)
	if err != nil {
		return nil, fmt.Errorf("%s is left alone: formatted it would be wrong (%w)", name, err)
	}
	was, err := flow.Encode(before)
	if err != nil {
		return nil, err
	}
	is, err := flow.Encode(after)
	if err == nil && !bytes.Equal(was, is) {
		err = fmt.Errorf("%s is left alone: formatted it would mean something else", name)
	}
	return text, err
}
