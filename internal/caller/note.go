package caller

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// Note says for whom the attempts of a run were made last. It has no values of variables.
type Note struct {
	At        time.Time `json:"at"`
	Process   int       `json:"process"`
	Dir       string    `json:"dir"`
	Variables []string  `json:"variables"` // the names that steps inherit
	Secrets   []string  `json:"secrets"`   // the names of those that have a source
	Limits    []string  `json:"limits"`
}

// noteName is the note's file in the run's folder of logs.
const noteName = "caller.json"

// Write writes the note of a run below a folder of logs. It helps people only, so attempts are made without it, too.
func Write(dir, run string, of *Caller) {
	note := Note{
		At: time.Now(), Process: of.Process, Dir: of.Dir, Variables: of.Names(), Secrets: of.Store.Names(),
		Limits: of.Limits,
	}
	folder := filepath.Join(dir, run)
	if data, err := json.Marshal(note); err == nil && os.MkdirAll(folder, 0o700) == nil {
		_ = os.WriteFile(filepath.Join(folder, noteName), data, 0o600)
	}
}

// NoteOf reads the note of a run below a folder of logs; nil: there is none.
func NoteOf(dir, run string) *Note {
	data, err := os.ReadFile(filepath.Join(dir, run, noteName))
	var note Note
	if err != nil || json.Unmarshal(data, &note) != nil {
		return nil
	}
	return &note
}
