package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/aether"
	"github.com/pawl-dev/pawl/dialect/steep"
	"github.com/pawl-dev/pawl/dialect/stevora"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
)

// sources are the further files that a document of another system needs.
type sources struct {
	services []string
	macros   []string
	handlers string
}

func (s *sources) flags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&s.services, "services", nil,
		"of a Steep workflow: a file of its services; may be given several times")
	flags.StringArrayVar(&s.macros, "macros", nil,
		"of a Steep workflow: a file of its macros; may be given several times")
	flags.StringVar(&s.handlers, "handlers", "",
		"of an Aether or Stevora workflow: the file that says what its steps run")
}

// check refuses files that a document of this system does not need: somebody believes that they count.
func (s *sources) check(system string) error {
	switch {
	case s == nil:
	case s.handlers != "" && system != "aether" && system != "stevora":
		return usage("--handlers is for a workflow of Aether or Stevora: put its name before the file, as in " +
			"aether:workflow.yaml")
	case len(s.services)+len(s.macros) > 0 && system != "steep":
		return usage("--services and --macros are for a Steep workflow: put its name before the file, as in " +
			"steep:workflow.yaml")
	}
	return nil
}

// systemNames are the systems whose documents are read, by the word before the colon: steep:workflow.yaml. Those of the
// last two are flow files, in which the system's policies are below its name; they need no such word.
var systemNames = []string{"aether", "steep", "stevora", "temporal", "zart"}

// cutSystem splits steep:workflow.yaml into system and path. system is "" where no system is named.
func cutSystem(file string) (system, path string) {
	system, path, ok := strings.Cut(file, ":")
	if !ok || !slices.Contains(systemNames, system) {
		return "", file
	}
	return system, path
}

// translate reads a document of another system.
func (a *app) translate(system, path string, s *sources) (*dialect.Conversion, error) {
	if err := s.check(system); err != nil {
		return nil, err
	}
	name, src, err := a.readFile(path)
	if err != nil {
		return nil, asUsage(err)
	}
	var c *dialect.Conversion
	switch system {
	case "aether", "stevora":
		c, err = a.translateHandled(system, name, src, s)
	case "steep":
		c, err = a.translateSteep(name, src, s)
	case "temporal", "zart":
		doc, parseErr := a.parseFlow(name, src)
		if parseErr != nil {
			return nil, asUsage(parseErr)
		}
		c = &dialect.Conversion{Flow: doc, Notes: notes(doc)}
	default:
		return nil, usage("documents of %q are not known; known are those of %s", system,
			strings.Join(systemNames, ", "))
	}
	return c, asUsage(err)
}

func (a *app) translateSteep(name string, src []byte, s *sources) (*dialect.Conversion, error) {
	if len(s.services) == 0 {
		return nil, usage("a Steep workflow needs its services: --services services.yaml")
	}
	in := steep.Sources{Workflow: steep.Source{Name: name, Text: src}}
	var err error
	if in.Services, err = a.steepFiles(s.services); err != nil {
		return nil, err
	}
	if in.Macros, err = a.steepFiles(s.macros); err != nil {
		return nil, err
	}
	return steep.Convert(in)
}

func (a *app) steepFiles(paths []string) ([]steep.Source, error) {
	out := make([]steep.Source, len(paths))
	for i, path := range paths {
		var err error
		if out[i].Name, out[i].Text, err = a.readFile(path); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// translateHandled reads a document whose steps name handlers; a second file describes the handlers.
func (a *app) translateHandled(system, name string, src []byte, s *sources) (*dialect.Conversion, error) {
	if s.handlers == "" {
		return nil, usage("%s does not say what its steps run; a file of handlers does: --handlers handlers.yaml", name)
	}
	file, text, err := a.readFile(s.handlers)
	if err != nil {
		return nil, err
	}
	if system == "aether" {
		return aether.Convert(aether.Source{Name: name, Text: src}, aether.Source{Name: file, Text: text})
	}
	return stevora.Convert(stevora.Source{Name: name, Text: src}, stevora.Source{Name: file, Text: text})
}

// load reads the file to run: a flow file, or a document of another system, which is stored as the flows it becomes.
func (a *app) load(file string, s *sources) (*compiled, error) {
	system, path := cutSystem(file)
	if err := s.check(system); err != nil {
		return nil, err
	}
	switch system {
	case "", "temporal", "zart":
		return a.loadBundle(path)
	}
	c, err := a.translate(system, path, s)
	if err != nil {
		return nil, err
	}
	a.tellNotes(c.Notes, false)
	b := bundle{Dialect: system}
	if b.Dir, err = os.Getwd(); err != nil {
		return nil, err
	}
	if b.Flow, err = sourceOf(c, c.Flow); err != nil {
		return nil, err
	}
	for _, child := range c.Children {
		s, err := sourceOf(c, child)
		if err != nil {
			return nil, err
		}
		b.Children = append(b.Children, s)
	}
	w, err := workflows.Compile(b)
	return w, asUsage(err)
}

// sourceOf writes the flow that was made from a document, with the places in that document which later errors name.
func sourceOf(c *dialect.Conversion, doc *flow.Document) (source, error) {
	text, err := flow.Encode(doc)
	return source{
		File: doc.Name + ".yaml", Text: string(text), Origins: flowkind.OriginsOf(doc),
		Places: flowkind.PlacesOf(doc), Chains: c.Chains[doc.Name],
	}, err
}

// notes returns the fields of a flow file that are written in another system's words and have no counterpart.
func notes(doc *flow.Document) []dialect.Note {
	var out []dialect.Note
	for _, n := range doc.Notes {
		out = append(out, dialect.Note{File: n.File, Pos: n.Pos, Msg: n.Msg})
	}
	return out
}

// tellNotes prints which fields of a document have no counterpart. A note about several fields is printed once, with
// all their places. Notes about fields that only readers use are printed by flow convert, not at each run.
func (a *app) tellNotes(notes []dialect.Note, readers bool) {
	places := map[string][]string{}
	var messages []string
	for _, n := range notes {
		if n.Documents && !readers {
			continue
		}
		if places[n.Msg] == nil {
			messages = append(messages, n.Msg)
		}
		places[n.Msg] = append(places[n.Msg], fmt.Sprintf("%s:%d:%d", n.File, n.Pos.Line, n.Pos.Col))
	}
	for _, msg := range messages {
		fmt.Fprintf(a.Err, "pawl: %s: %s\n", places[msg][0], msg)
		if more := places[msg][1:]; len(more) > 0 {
			fmt.Fprintf(a.Err, "      so at %s\n", strings.Join(more, ", "))
		}
	}
}
