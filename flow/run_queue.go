package flow

import (
	"errors"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/tree"
)

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
