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
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
)

// foreign are the files that belong to a document of another system.
type foreign struct {
	services []string
	macros   []string
	handlers string
}

func (f *foreign) flags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.services, "services", nil, "of a Steep workflow: a file of its services; may be given several times")
	flags.StringArrayVar(&f.macros, "macros", nil, "of a Steep workflow: a file of its macros; may be given several times")
	flags.StringVar(&f.handlers, "handlers", "", "of an Aether or Stevora workflow: the file that says what its steps run")
}

// systemNames are the systems whose documents are read, by the word before the colon: steep:workflow.yaml. Those of the
// last two are flow files, in which the system's policies stand below its name; they need no such word.
var systemNames = []string{"aether", "steep", "stevora", "temporal", "zart"}

// foreignFile cuts steep:workflow.yaml; system is "" where a file is an ordinary one.
func foreignFile(file string) (system, path string) {
	system, path, ok := strings.Cut(file, ":")
	if !ok || !slices.Contains(systemNames, system) {
		return "", file
	}
	return system, path
}

// translate reads a document of another system.
func (a *app) translate(system, path string, f *foreign) (*dialect.Conversion, error) {
	name, src, err := a.readFile(path)
	if err != nil {
		return nil, asUsage(err)
	}
	var c *dialect.Conversion
	switch system {
	case "aether", "stevora":
		c, err = a.translateHandled(system, name, src, f)
	case "steep":
		c, err = a.translateSteep(name, src, f)
	case "temporal", "zart":
		doc, parseErr := parseFlow(name, src)
		if parseErr != nil {
			return nil, asUsage(parseErr)
		}
		c = &dialect.Conversion{Flow: doc, Notes: notes(doc)}
	default:
		return nil, usage("documents of %q are not known; known are those of %s", system, strings.Join(systemNames, ", "))
	}
	return c, asUsage(err)
}

func (a *app) translateSteep(name string, src []byte, f *foreign) (*dialect.Conversion, error) {
	if len(f.services) == 0 {
		return nil, usage("a Steep workflow needs its services: --services services.yaml")
	}
	in := steep.Sources{Workflow: steep.Source{Name: name, Text: src}}
	var err error
	if in.Services, err = a.steepFiles(f.services); err != nil {
		return nil, err
	}
	if in.Macros, err = a.steepFiles(f.macros); err != nil {
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

// translateHandled reads a document that leaves to its surroundings what its steps run.
func (a *app) translateHandled(system, name string, src []byte, f *foreign) (*dialect.Conversion, error) {
	if f.handlers == "" {
		return nil, usage("%s does not say what its steps run; a file of handlers does: --handlers handlers.yaml", name)
	}
	file, text, err := a.readFile(f.handlers)
	if err != nil {
		return nil, err
	}
	if system == "aether" {
		return aether.Convert(aether.Source{Name: name, Text: src}, aether.Source{Name: file, Text: text})
	}
	return stevora.Convert(stevora.Source{Name: name, Text: src}, stevora.Source{Name: file, Text: text})
}

// load reads what is to run: a flow file, or a document of another system, which is stored as the flows it becomes.
func (a *app) load(file string, f *foreign) (*compiled, error) {
	system, path := foreignFile(file)
	switch system {
	case "", "temporal", "zart":
		return a.loadBundle(path)
	}
	c, err := a.translate(system, path, f)
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
	return compile(b)
}

// sourceOf writes a flow that was made of a document. What is told of its expressions later are places in the flow, so
// it is not to have the document's name.
func sourceOf(c *dialect.Conversion, doc *flow.Document) (source, error) {
	text, err := flow.Encode(doc)
	return source{File: doc.Name + ".yaml", Text: string(text), Origins: flowkind.OriginsOf(doc), Chains: c.Chains[doc.Name]}, err
}

// notes are the fields of a flow file that stand in another system's words and have no counterpart.
func notes(doc *flow.Document) []dialect.Note {
	var out []dialect.Note
	for _, n := range doc.Notes {
		out = append(out, dialect.Note{File: doc.File, Pos: n.Pos, Msg: n.Msg})
	}
	return out
}

// tellNotes says what of a document has no counterpart: what is said of several fields once, with all their places. What
// is there for readers alone is said where the document itself is translated, not each time it runs.
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
