package flow

import (
	"encoding/json"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// inDirectory returns the definition of a flow whose relative paths count from a directory; "": from wherever the
// process is that executes its steps.
func inDirectory(def *core.Definition, dir string) *core.Definition {
	if dir == "" {
		return def
	}
	out := *def
	out.NewDecider = func(r *core.Run) core.Decider { return directoryDecider{def.NewDecider(r), dir} }
	return &out
}

type directoryDecider struct {
	core.Decider
	dir string
}

// Task gives a process its directory and an upload its file.
func (d directoryDecider) Task(r *core.Run, s *core.Step, now core.Time) ([]byte, *policy.Failure) {
	payload, failure := d.Decider.Task(r, s, now)
	if failure != nil || s.Spec.Kind != core.KindTask {
		return payload, failure
	}
	switch s.Spec.Type {
	case "exec":
		return d.join(payload, "dir", true), nil
	case "http":
		return d.join(payload, "file", false), nil
	default:
		return payload, nil
	}
}

// join makes the path in a field of the payload an absolute one. An empty path stays empty, unless it means the
// directory itself.
func (d directoryDecider) join(payload []byte, field string, emptyToo bool) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) != nil {
		return payload
	}
	var path string
	if json.Unmarshal(fields[field], &path) != nil {
		path = ""
	}
	if (path == "" && !emptyToo) || filepath.IsAbs(path) {
		return payload
	}
	text, err := json.Marshal(filepath.Join(d.dir, path))
	if err != nil {
		return payload
	}
	fields[field] = text
	if out, err := json.Marshal(fields); err == nil {
		return out
	}
	return payload
}
