package flow

import (
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Bundle is the stored form of a flow with its runs: the text it started with, and everything needed to continue it
// elsewhere and later. Errors still name the file, commands run in the same directory, child flows are those of that
// day.
type Bundle struct {
	Version int `json:"version"` // [Version], which Definition sets
	// Dir is the directory that relative paths of the flow's steps count from. It is empty for a flow that a program
	// defined: its paths count from the working directory of the process that carries the run on.
	Dir      string   `json:"dir,omitempty"`
	Flow     Source   `json:"flow"`
	Children []Source `json:"children,omitempty"` // flows that its steps may start
	Dialect  string   `json:"dialect,omitempty"`  // the system whose document it was made of
}

// Version is the version of the stored form, and of the rules for reading the flows in it. A rule that refuses more, or
// changes the meaning of a text, is a new version: flows with runs are read by the earlier rules.
const Version = 1

// Source is one flow file.
type Source struct {
	File string `json:"file"` // the file's name in errors and limits
	Text string `json:"text"`
	// Files are the files that its templates come from, by the paths that it gives. They are a part of the stored form,
	// so that the flow is read later as it was, and is another definition when one of them has changed.
	Files   map[string]string `json:"files,omitempty"`
	Origins Origins           `json:"origins,omitempty"`
	// Places are the places of the steps in the document of another system from which the flow was made.
	Places map[string]string `json:"places,omitempty"`
	// Chains are process chains of Steep: step names, and the chains that they belong to.
	Chains map[string]string `json:"chains,omitempty"`
}

// Definition returns the bundle in its stored form, under the flow's name.
func (b Bundle) Definition(name string) (journal.Definition, error) {
	b.Version = Version
	src, err := json.Marshal(b)
	if err != nil {
		return journal.Definition{}, err
	}
	return journal.Definition{ID: flow.ID(src), Kind: journal.KindFlow, Name: name, Source: src}, nil
}

// decode reads a stored bundle. A definition is named by the hash of its source, so a source that the storage has
// changed is noticed here and never run.
func decode(d journal.Definition) (Bundle, error) {
	if d.Kind != journal.KindFlow {
		return Bundle{}, fmt.Errorf("workflow %q is of kind %q and not a flow", d.Name, d.Kind)
	}
	if flow.ID(d.Source) != d.ID {
		return Bundle{}, fmt.Errorf("%w: the stored text of flow %q is not the one it was started with; "+
			"restore a backup of the file", journal.ErrCorrupt, d.Name)
	}
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(d.Source, &head); err != nil {
		return Bundle{}, fmt.Errorf("the stored text of flow %q: %w", d.Name, err)
	}
	if head.Version != Version {
		return Bundle{}, fmt.Errorf("flow %q is stored in form %d; this version of Pawl knows form %d: use the one"+
			" that has stored it", d.Name, head.Version, Version)
	}
	var b Bundle
	if err := json.Unmarshal(d.Source, &b); err != nil {
		return Bundle{}, fmt.Errorf("the stored text of flow %q: %w", d.Name, err)
	}
	return b, nil
}

// Parse reads a flow file by today's rules. Its policies may be written in the words of other systems. read returns the
// text of a file that contains its templates; nil: there are no files.
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

// parse reads the flow with the files that were stored with it.
func (s Source) parse() (*flow.Document, error) { return Parse(s.File, s.Text, s.read) }
