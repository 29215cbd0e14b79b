package flow

import (
	"bytes"
	"sync"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Flow is a bundle made ready to run.
type Flow struct {
	Bundle     Bundle
	Document   *flow.Document
	Definition *core.Definition

	mu      sync.Mutex
	members map[string]*member            // the bundle's flows by name, read when a child is first started
	started map[string]journal.Definition // child flows by name: a forEach starts the same one many times
}

// New makes a flow of a bundle.
func New(b Bundle) (*Flow, error) {
	doc, err := b.Flow.parse()
	if err != nil {
		return nil, err
	}
	def, err := flow.Compile(doc)
	if err != nil {
		return nil, err
	}
	b.Flow.Origins.apply(doc, def)
	doc.Place = b.Flow.Places[""]
	for s := range doc.AllSteps() {
		s.Place = b.Flow.Places[s.Name]
	}
	return &Flow{Bundle: b, Document: doc, Definition: inDirectory(def, b.Dir)}, nil
}

// Read makes a flow from its stored form.
func Read(d journal.Definition) (*Flow, error) {
	b, err := decode(d)
	if err != nil {
		return nil, err
	}
	return New(b)
}

// Of makes a flow of a document that somebody read, built or changed. It keeps the text of the document's file if that
// has the same meaning, so that errors name lines which the reader knows; else the text is the document written out.
func Of(doc *flow.Document) (*Flow, error) {
	plain := *doc
	plain.Chain = nil // only the text of a file can express it
	text, err := flow.Encode(&plain)
	if err != nil {
		return nil, err
	}
	if f, err := New(Bundle{
		Flow: Source{File: doc.File, Text: string(doc.Source()), Files: doc.Files()},
	}); err == nil {
		read := *f.Document
		read.Chain = nil
		if same, err := flow.Encode(&read); err == nil && bytes.Equal(same, text) && sameChain(f.Document, doc) {
			return f, nil
		}
	}
	if _, err := flow.Encode(doc); err != nil {
		return nil, err
	}
	return New(Bundle{Flow: Source{
		File: doc.Name + ".yaml", Text: string(text), Origins: OriginsOf(doc), Places: PlacesOf(doc),
	}})
}

// sameChain reports whether two documents have the same chain, or none.
func sameChain(a, b *flow.Document) bool {
	if a.Chain == nil || b.Chain == nil {
		return a.Chain == b.Chain
	}
	return *a.Chain == *b.Chain
}

// Elsewhere reports whether workers in other processes may execute steps of a flow, so that what they refer to need not
// be known here.
func Elsewhere(doc *flow.Document) bool {
	if doc.Defaults.Queue != "" {
		return true
	}
	for _, s := range doc.Services {
		if s.Queue != "" {
			return true
		}
	}
	for s := range doc.AllSteps() {
		if s.Queue != "" {
			return true
		}
	}
	return false
}
