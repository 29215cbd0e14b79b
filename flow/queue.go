package flow

import (
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// readQueues reads the limits of task queues, by their names.
func (p *parsing) readQueues(n *tree.Node) []*Queue {
	if n == nil || n.Kind == tree.Null {
		return nil
	}
	if n.Kind != tree.Mapping {
		p.Fail(n.Pos, "", "queues is a mapping from names to limits, not %s", n.Kind)
		return nil
	}
	var queues []*Queue
	for _, f := range n.Fields {
		if problem := nameProblem(f.Name); problem != "" {
			p.Fail(f.Pos, "", "a queue's name, %q, %s", tree.Shorten(f.Name), problem)
		}
		q := &Queue{Name: f.Name, Limits: p.queueLimits(f.Value), pos: f.Pos}
		if !slices.ContainsFunc(queues, func(o *Queue) bool { return o.Name == q.Name }) {
			queues = append(queues, q)
		}
	}
	return queues
}

// queueLimits reads the limits of a queue or a service.
func (p *parsing) queueLimits(n *tree.Node) *policy.QueueLimits {
	before := len(p.Errors)
	if !p.object(n, "limits", queueKeys) {
		return nil
	}
	if b := n.Get("breaker"); b != nil {
		p.object(b, "breaker", breakerKeys)
	}
	if len(p.Errors) > before {
		return nil
	}
	p.bareField(n.Get("breaker"), "pause", "maxPause")
	p.bareRate(n, "rate", "keyRate", "retries")
	limits, err := policy.DecodeQueueLimits(n.Any())
	if err != nil {
		p.field(n, "limits", err)
		return nil
	}
	return limits
}

// share compiles whose limits bound a step, together with other steps and runs.
func (b *builder) share(p *plan, s *Step, vars expr.Vars) {
	if p.spec.Kind != core.KindTask {
		return
	}
	if s.Service != "" {
		p.spec.Share = &core.Share{Service: s.Service}
	}
	settings := b.settings(s)
	if settings.Key.IsZero() {
		return
	}
	p.key = b.compiler.Template(tree.NodeOf(settings.Key), vars&^(expr.VarAttempt|expr.VarCode|expr.VarFailure), true)
}

// limits returns the limits of the document's queues and services, by name.
func (d *Document) limits() (queues, services map[string]*policy.QueueLimits) {
	for _, q := range d.Queues {
		if !q.Limits.Zero() {
			if queues == nil {
				queues = map[string]*policy.QueueLimits{}
			}
			queues[q.Name] = q.Limits
		}
	}
	for _, s := range d.Services {
		if !s.Limits.Zero() {
			if services == nil {
				services = map[string]*policy.QueueLimits{}
			}
			services[s.Name] = s.Limits
		}
	}
	return queues, services
}

// checkLimits checks limits that were made in code; those of a file have been checked when it was read.
func (b *builder) checkLimits() {
	check := func(what, name string, l *policy.QueueLimits) {
		if l == nil || b.Source != nil {
			return
		}
		if err := l.Check(); err != nil {
			b.Fail(tree.Pos{}, "", "the limits of %s %q: %s", what, name, err)
		}
	}
	for _, q := range b.doc.Queues {
		check("queue", q.Name, q.Limits)
	}
	for _, s := range b.doc.Services {
		check("service", s.Name, s.Limits)
	}
}

// encodeQueueLimits writes limits as they are read.
func encodeQueueLimits(l *policy.QueueLimits) tree.Value {
	if l == nil {
		return tree.Value{}
	}
	text, err := json.Marshal(l)
	if err != nil {
		return tree.Value{}
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return tree.Value{}
	}
	out := object{}
	for _, key := range queueKeys {
		if v, ok := fields[key]; ok {
			out.put(key, encodeLimitField(v))
		}
	}
	return out.value()
}

// encodeLimitField writes the value of a limit: JSON's numbers are whole ones here.
func encodeLimitField(v any) tree.Value {
	switch v := v.(type) {
	case float64:
		return V(int(v))
	case map[string]any:
		out := object{}
		for _, key := range breakerKeys {
			if field, ok := v[key]; ok {
				out.put(key, encodeLimitField(field))
			}
		}
		return out.value()
	default:
		return V(v)
	}
}
