package flow

import (
	"encoding/json"
	"path/filepath"
	"strings"

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
		return d.process(payload), nil
	case "http":
		return d.join(payload, "file", false), nil
	default:
		return payload, nil
	}
}

// process gives a process the directory, or its container.
func (d directoryDecider) process(payload []byte) []byte {
	var fields struct{ Container json.RawMessage }
	if json.Unmarshal(payload, &fields) != nil || fields.Container == nil {
		return d.join(payload, "dir", true)
	}
	var in struct {
		Workspace *string
		Volumes   []string
	}
	if json.Unmarshal(fields.Container, &in) != nil {
		return payload
	}
	changed := map[string]any{}
	switch {
	case in.Workspace == nil:
		changed["workspace"] = d.dir
	case *in.Workspace != "" && !filepath.IsAbs(*in.Workspace):
		changed["workspace"] = filepath.Join(d.dir, *in.Workspace)
	}
	for i, v := range in.Volumes {
		if source, target, ok := strings.Cut(v, ":"); ok && strings.HasPrefix(source, ".") {
			in.Volumes[i] = filepath.Join(d.dir, source) + ":" + target
			changed["volumes"] = in.Volumes
		}
	}
	container := set(fields.Container, changed)
	return set(payload, map[string]any{"container": json.RawMessage(container)})
}

// set returns a JSON object with other values of some keys.
func set(object []byte, values map[string]any) []byte {
	var fields map[string]json.RawMessage
	if len(values) == 0 || json.Unmarshal(object, &fields) != nil {
		return object
	}
	for key, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			return object
		}
		fields[key] = text
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return object
	}
	return out
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
	return set(payload, map[string]any{field: filepath.Join(d.dir, path)})
}
