package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/systems"
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
	titles, _ := needing(systems.Handlers)
	flags.StringVar(&s.handlers, "handlers", "", "of an "+titles+" workflow: the file that says what its steps run")
}

// check refuses files that a document of this system does not need: somebody believes that they count.
func (s *sources) check(name string) error {
	if s == nil {
		return nil
	}
	needs := systems.None
	if system := systems.Of(name); system != nil {
		needs = system.Needs
	}
	switch {
	case s.handlers != "" && needs != systems.Handlers:
		titles, first := needing(systems.Handlers)
		return usage("--handlers is for a workflow of %s: put its name before the file, as in %s:workflow.yaml", titles,
			first)
	case len(s.services)+len(s.macros) > 0 && needs != systems.Services:
		titles, first := needing(systems.Services)
		return usage("--services and --macros are for a %s workflow: put its name before the file, as in "+
			"%s:workflow.yaml", titles, first)
	}
	return nil
}

// needing returns the titles of the systems whose documents need a kind of files, and the name of the first one.
func needing(kind systems.Need) (titles, first string) {
	var all []string
	for _, s := range systems.All {
		if s.Needs == kind {
			all = append(all, s.Title)
			first = cmp.Or(first, s.Name)
		}
	}
	return strings.Join(all, " or "), first
}

// cutSystem splits steep:workflow.yaml into system and path. system is "" where no system is named.
func cutSystem(file string) (system, path string) {
	system, path, ok := strings.Cut(file, ":")
	if !ok || systems.Of(system) == nil {
		return "", file
	}
	return system, path
}

// translate reads a document of another system.
func (a *app) translate(name, path string, s *sources) (*dialect.Conversion, error) {
	if err := s.check(name); err != nil {
		return nil, err
	}
	file, src, err := a.readFile(path)
	if err != nil {
		return nil, asUsage(err)
	}
	system := systems.Of(name)
	switch {
	case system == nil:
		return nil, usage("documents of %q are not known; known are those of %s", name,
			strings.Join(systems.Names(), ", "))
	case system.Convert == nil:
		doc, err := a.parseFlow(file, src)
		if err != nil {
			return nil, asUsage(err)
		}
		return &dialect.Conversion{Flow: doc, Notes: notes(doc)}, nil
	}
	in, err := a.furtherFiles(system, systems.Files{Document: systems.SourceFile{Name: file, Text: src}}, s)
	if err != nil {
		return nil, asUsage(err)
	}
	c, err := system.Convert(in)
	return c, asUsage(err)
}

// furtherFiles reads the files that a document needs.
func (a *app) furtherFiles(system *systems.System, in systems.Files, s *sources) (systems.Files, error) {
	switch {
	case system.Needs == systems.Handlers && s.handlers == "":
		return in, usage("%s does not say what its steps run; a file of handlers does: --handlers handlers.yaml",
			in.Document.Name)
	case system.Needs == systems.Services && len(s.services) == 0:
		return in, usage("a %s workflow needs its services: --services services.yaml", system.Title)
	}
	var err error
	if s.handlers != "" {
		if in.Handlers.Name, in.Handlers.Text, err = a.readFile(s.handlers); err != nil {
			return in, err
		}
	}
	if in.Services, err = a.filesAt(s.services); err != nil {
		return in, err
	}
	in.Macros, err = a.filesAt(s.macros)
	return in, err
}

func (a *app) filesAt(paths []string) ([]systems.SourceFile, error) {
	out := make([]systems.SourceFile, len(paths))
	for i, path := range paths {
		var err error
		if out[i].Name, out[i].Text, err = a.readFile(path); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// load reads the file to run: a flow file, or a document of another system, which is stored as the flows it becomes.
func (a *app) load(file string, s *sources) (*compiled, error) {
	system, path := cutSystem(file)
	if err := s.check(system); err != nil {
		return nil, err
	}
	if of := systems.Of(system); of == nil || of.Convert == nil {
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
