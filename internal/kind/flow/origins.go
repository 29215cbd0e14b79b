package flow

import (
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Origins are the places of the limits and the retry policies of a flow, by step and limit; those of the run are under
// the step "". A flow that was made from another system's document has them, so that its limits are explained with that
// document and not with a line of a generated file.
type Origins map[string]map[string]string

// originRetry is the key of the place of a retry policy, beside those of limits.
const originRetry = "retry"

// OriginsOf returns the places of a document's limits and retry policies.
func OriginsOf(doc *flow.Document) Origins {
	o := Origins{}
	add := func(step, limit, origin string) {
		if origin == "" {
			return
		}
		if o[step] == nil {
			o[step] = map[string]string{}
		}
		o[step][limit] = origin
	}
	if l := doc.Limits.Run; l != nil {
		add("", "run", l.Origin)
	}
	for s := range doc.AllSteps() {
		for _, kind := range policy.StepLimits {
			if l := s.Policy.Get(kind); l != nil {
				add(s.Name, kind.String(), l.Origin)
			}
		}
		switch r := s.Policy.Retry; {
		case r == nil:
		case r.Origin != "":
			add(s.Name, originRetry, r.Origin)
		default:
			add(s.Name, originRetry, s.Place)
		}
	}
	return o
}

// PlacesOf returns the places of a document's steps in the document of another system from which it was made. The place
// of the flow itself is under the step "".
func PlacesOf(doc *flow.Document) map[string]string {
	places := map[string]string{}
	if doc.Place != "" {
		places[""] = doc.Place
	}
	for s := range doc.AllSteps() {
		if s.Place != "" {
			places[s.Name] = s.Place
		}
	}
	return places
}

// apply puts the places into a flow that is not yet in use.
func (o Origins) apply(doc *flow.Document, def *core.Definition) {
	if len(o) == 0 {
		return
	}
	doc.Limits.Run = o.limit("", "run", doc.Limits.Run)
	for _, spec := range def.Specs {
		for _, kind := range policy.StepLimits {
			spec.Policy.Set(kind, o.limit(spec.Name, kind.String(), spec.Policy.Get(kind)))
		}
		if place := o[spec.Name][originRetry]; place != "" && spec.Policy.Retry != nil {
			retry := *spec.Policy.Retry
			retry.Origin = place
			spec.Policy.Retry = &retry
		}
	}
}

// limit returns the limit with its place, where that is known.
func (o Origins) limit(step, name string, l *policy.Limit) *policy.Limit {
	place := o[step][name]
	if l == nil || place == "" {
		return l
	}
	placed := *l
	placed.Origin = place
	return &placed
}
