package flow

import (
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Bundle is what is stored of a flow with its runs: the text it started with, and what it takes to go on with it
// elsewhere and later. Errors still name the file, commands run in the same directory, child flows are the ones of
// that day.
type Bundle struct {
	// Dir is the directory that relative paths of the flow's steps count from. It is empty for a flow that a program
	// defined: its paths count from the working directory of the process that carries the run on.
	Dir      string   `json:"dir,omitempty"`
	Flow     Source   `json:"flow"`
	Children []Source `json:"children,omitempty"` // flows that its steps may start
	Dialect  string   `json:"dialect,omitempty"`  // the system whose document it was made of
	// Edition is the version of the rules by which the flows are read; see Parse. What was stored under older rules is
	// read by these as long as it has runs.
	Edition int `json:"edition,omitempty"`
	// Once leaves out the flow's own cron: the run begins at once, and none follows. Such a run makes up for a firing
	// that was missed.
	Once bool `json:"once,omitempty"`
}

// Edition is today's version of the rules. With edition 0, less is an error: keys that an input or an output does not
// have, expressions in the text of a shell that are not quoted, and more.
const Edition = 1

// Source is one flow file.
type Source struct {
	File string `json:"file"` // as errors and limits name it
	Text string `json:"text"`
	// Files are the files that its templates come from, by the paths that it gives. They are a part of what is stored,
	// so that the flow is read later as it was, and is another definition when one of them has changed.
	Files   map[string]string `json:"files,omitempty"`
	Origins Origins           `json:"origins,omitempty"`
	// Places are where the steps stand in the document of another system that the flow was made of.
	Places map[string]string `json:"places,omitempty"`
	// Chains are process chains of Steep: step names, and the chains that they belong to.
	Chains map[string]string `json:"chains,omitempty"`
}

// Definition is the bundle as it is stored, under the flow's name.
func (b Bundle) Definition(name string) (journal.Definition, error) {
	src, err := json.Marshal(b)
	if err != nil {
		return journal.Definition{}, err
	}
	return journal.Definition{ID: flow.ID(src), Kind: journal.KindFlow, Name: name, Source: src}, nil
}

// Is reports whether a definition of that kind holds a flow, in today's form or in one of the older ones.
func Is(kind string) bool { return kind == journal.KindFlow || kind == journal.KindBundle }

// decode reads a stored bundle. A definition is named by the hash of its source, so a source that the storage has
// changed is noticed here and never run.
func decode(d journal.Definition) (Bundle, error) {
	if !Is(d.Kind) {
		return Bundle{}, fmt.Errorf("workflow %q is of kind %q and not a flow", d.Name, d.Kind)
	}
	if flow.ID(d.Source) != d.ID {
		return Bundle{}, fmt.Errorf("%w: the stored text of flow %q is not the one it was started with; "+
			"restore a backup of the file", journal.ErrCorrupt, d.Name)
	}
	var stored struct {
		Bundle
		File string `json:"file"` // of the older form of Go programs
		Text string `json:"text"`
	}
	if err := json.Unmarshal(d.Source, &stored); err != nil {
		return Bundle{}, fmt.Errorf("the stored text of flow %q: %w", d.Name, err)
	}
	if stored.Flow.Text == "" {
		stored.Flow.File, stored.Flow.Text = stored.File, stored.Text
	}
	return stored.Bundle, nil
}

// Parse reads a flow file by today's rules. Policies may stand in it in the words of other systems. read returns the
// text of a file that its templates come from; nil: there are no files.
func Parse(file, text string, read func(path string) ([]byte, error)) (*flow.Document, error) {
	return flow.ParseFiles(file, []byte(text), read, dialect.Forms()...)
}

// read returns the text of a file that was stored with the flow.
func (s Source) read(path string) ([]byte, error) {
	text, ok := s.Files[path]
	if !ok {
		return nil, fmt.Errorf("%s is not stored with the flow", path)
	}
	return []byte(text), nil
}

// parse reads one of the bundle's flows by the rules of the bundle's edition.
func (b Bundle) parse(s Source) (*flow.Document, error) {
	if b.Edition < Edition {
		return flow.ParseOlder(s.File, []byte(s.Text), dialect.Forms()...)
	}
	return Parse(s.File, s.Text, s.read)
}
