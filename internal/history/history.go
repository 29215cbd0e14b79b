// Package history writes a run's history into a file, and reads it again: for pawl run history, Engine.History, and
// replays.
//
// The file is JSON. It holds each entry of the run twice: as the journal encodes it, which is authoritative, and as the
// events that follow from it, which are for people and for comparing files.
package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
)

// version is the version of the file's form. It grows when older code could not read what newer code writes. The
// entries have a version of their own.
const version = 1

// file is the written form of a history.
type file struct {
	Version    int         `json:"pawlHistory"` // version of the form; first, so that people know the file
	Run        core.RunID  `json:"run"`
	Workflow   string      `json:"workflow"`
	WorkflowID string      `json:"workflowId,omitempty"`
	Phase      string      `json:"phase"` // phase when the history was written
	Entries    []fileEntry `json:"entries"`
}

// fileEntry is one entry.
type fileEntry struct {
	Events []core.Event `json:"events"` // events for readers of the file; never read back
	Entry  []byte       `json:"entry"`  // an entry as core.AppendEntry writes it
}

// Write returns the file of a run with these entries. The same entries always give the same bytes. def names the steps
// of a flow in the events.
func Write(def *core.Definition, entries []core.Entry) ([]byte, error) {
	if len(entries) == 0 {
		return nil, errors.New("the history is empty")
	}
	teller := core.NewTeller(entries[0].Run, def)
	f := file{Version: version, Run: entries[0].Run}
	for i := range entries {
		events := teller.Events(entries[i])
		if events == nil {
			events = []core.Event{}
		}
		f.Entries = append(f.Entries, fileEntry{Events: events, Entry: core.AppendEntry(nil, &entries[i])})
	}
	r := teller.Run()
	f.Workflow, f.WorkflowID, f.Phase = r.Workflow, r.WorkflowID, r.Phase.String()
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// Read returns the entries of a file, all of one run.
func Read(data []byte) ([]core.Entry, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("the history is empty")
	}
	var head struct {
		Version int `json:"pawlHistory"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("the history is not JSON: %w", err)
	}
	switch {
	case head.Version == 0:
		return nil, errors.New(`the file is no history: it has no "pawlHistory"; write one with pawl run history`)
	case head.Version > version:
		return nil, fmt.Errorf("the history was written by a newer version of Pawl: its form is %d, this version "+
			"reads up to %d", head.Version, version)
	}
	var f struct {
		Entries []struct {
			Entry []byte `json:"entry"`
		} `json:"entries"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("the history cannot be read: %w", err)
	}
	var entries []core.Entry
	for i := range f.Entries {
		e, rest, err := core.ReadEntry(f.Entries[i].Entry)
		if err == nil && len(rest) > 0 {
			err = fmt.Errorf("%w: %d bytes are left over", core.ErrBroken, len(rest))
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d of the history: %w", i+1, err)
		}
		entries = append(entries, e)
	}
	return same(entries)
}

// same refuses a history that is empty or has entries of several runs.
func same(entries []core.Entry) ([]core.Entry, error) {
	if len(entries) == 0 {
		return nil, errors.New("the history is empty")
	}
	for i := range entries {
		if entries[i].Run != entries[0].Run {
			return nil, fmt.Errorf("entry %d of the history is of run %s, the first one of run %s", i+1,
				entries[i].Run, entries[0].Run)
		}
	}
	return entries, nil
}
