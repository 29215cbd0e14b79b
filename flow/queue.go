package flow

import (
	"encoding/json"
	"errors"
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

// RunQueue is the queue that runs of a flow are started into. A run begins when the limits of the queue admit it.
type RunQueue struct {
	Name     string
	Key      tree.Value // a text: the key for the limits for each key; expressions in it can use the input
	Priority int32      // higher first among the runs that wait

	pos tree.Pos
}

// runQueue reads the queue of a flow's runs: its name alone, or with a key and a priority.
func (p *parsing) runQueue(n *tree.Node) *RunQueue {
	if n == nil || n.Kind == tree.Null {
		return nil
	}
	q := &RunQueue{pos: n.Pos}
	name := n
	if n.Kind == tree.Mapping {
		p.object(n, "queue", runQueueKeys)
		if name = n.Get("name"); name == nil || name.Kind == tree.Null {
			p.Fail(n.Pos, "add name: bills", "the queue has no name")
			return nil
		}
		q.Key = tree.ValueOf(n.Get("key"))
		if priority := p.priority(n.Get("priority")); priority != nil {
			q.Priority = *priority
		}
	}
	q.Name = p.text(name, "the name of a queue")
	p.name(name, "a queue's name")
	if name.Kind == tree.Text && q.Name == "" {
		p.Fail(name.Pos, "", "the name of a queue is empty")
	}
	return q
}

// runQueue compiles the queue of the runs.
func (b *builder) runQueue() {
	q := b.doc.Queue
	if q == nil {
		return
	}
	if problem := nameProblem(q.Name); problem != "" && b.Source == nil {
		b.Fail(q.pos, "", "a queue's name, %q, %s", tree.Shorten(q.Name), problem)
	}
	if !q.Key.IsZero() {
		b.def.queueKey = b.compiler.Template(tree.NodeOf(q.Key), expr.VarInput, true)
	}
}

// runQueue returns the queue of a run with that input.
func (d *definition) runQueue(input []byte) (core.RunQueue, error) {
	q := d.doc.Queue
	out := core.RunQueue{Name: q.Name, Priority: q.Priority}
	if d.queueKey == nil {
		return out, nil
	}
	s := &scope{decider: newDecider(d), run: &core.Run{Input: input}}
	if _, err := s.values.decodeInput(s.run); err != nil {
		return out, err
	}
	var err error
	if out.Key, err = d.queueKey.Text(s); err != nil {
		return out, errors.New(broken("its key", "", err).Message)
	}
	return out, nil
}

// encodeRunQueue writes the queue of the runs as it is read.
func encodeRunQueue(q *RunQueue) tree.Value {
	switch {
	case q == nil:
		return tree.Value{}
	case q.Key.IsZero() && q.Priority == 0:
		return V(q.Name)
	}
	out := object{}
	out.text("name", q.Name)
	out.put("key", q.Key)
	if q.Priority != 0 {
		out.put("priority", V(int(q.Priority)))
	}
	return out.value()
}
