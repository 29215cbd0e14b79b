package main

import (
	"encoding/json"
	"path/filepath"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// origins are the places that the limits of a flow come from, by step and limit; those of the run are under no step.
// A flow that was made of another system's document has them: its limits are told as that document has them, not at a
// line of a file that nobody wrote.
type origins map[string]map[string]string

// originsOf takes the places of a document's limits.
func originsOf(doc *flow.Document) origins {
	o := origins{}
	add := func(step, limit string, l *policy.Limit) {
		if l == nil || l.Origin == "" {
			return
		}
		if o[step] == nil {
			o[step] = map[string]string{}
		}
		o[step][limit] = l.Origin
	}
	add("", "run", doc.Limits.Run)
	for s := range doc.AllSteps() {
		for _, kind := range policy.StepLimits {
			add(s.Name, kind.String(), s.Policy.Get(kind))
		}
	}
	return o
}

// apply puts the places into a flow that is not yet in use.
func (o origins) apply(doc *flow.Document, def *core.Definition) {
	doc.Limits.Run = o.limit("", "run", doc.Limits.Run)
	if len(o) == 0 {
		return
	}
	for _, spec := range def.Specs {
		for _, kind := range policy.StepLimits {
			spec.Policy.Set(kind, o.limit(spec.Name, kind.String(), spec.Policy.Get(kind)))
		}
	}
}

// limit is the limit with its place, where that is known.
func (o origins) limit(step, name string, l *policy.Limit) *policy.Limit {
	place := o[step][name]
	if l == nil || place == "" {
		return l
	}
	told := *l
	told.Origin = place
	return &told
}

// placed is a flow that belongs to a directory: what its steps name relative to no place, they name relative to that one.
func placed(def *core.Definition, dir string) *core.Definition {
	out := *def
	out.NewDecider = func(r *core.Run) core.Decider { return placedDecider{def.NewDecider(r), dir} }
	return &out
}

type placedDecider struct {
	core.Decider
	dir string
}

// Task gives a process its directory and an upload its file.
func (d placedDecider) Task(r *core.Run, s *core.Step, now core.Time) ([]byte, *policy.Failure) {
	payload, failure := d.Decider.Task(r, s, now)
	if failure != nil || d.dir == "" || s.Spec.Kind != core.KindTask {
		return payload, failure
	}
	switch s.Spec.Type {
	case "exec":
		return d.place(payload, "dir", true), nil
	case "http":
		return d.place(payload, "file", false), nil
	default:
		return payload, nil
	}
}

func (d placedDecider) place(payload []byte, key string, always bool) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) != nil {
		return payload
	}
	var path string
	if json.Unmarshal(fields[key], &path) != nil {
		path = ""
	}
	if (path == "" && !always) || filepath.IsAbs(path) {
		return payload
	}
	text, err := json.Marshal(filepath.Join(d.dir, path))
	if err != nil {
		return payload
	}
	fields[key] = text
	if out, err := json.Marshal(fields); err == nil {
		return out
	}
	return payload
}
