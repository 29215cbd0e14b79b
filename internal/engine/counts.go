package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/limit"
	"github.com/pawl-dev/pawl/internal/engine/slots"
)

// Queues returns the task queues in which attempts wait or run, or have since the engine was opened, by their names. In
// a cluster the attempts are those of this engine's partitions. Errors: those of List.
func (e *Engine) Queues(ctx context.Context) ([]QueueStats, error) {
	byKey := map[slots.Key]QueueStats{}
	for _, part := range e.all() {
		c := &QueuesCall{}
		if err := part.ask(ctx, c); errors.Is(err, errHeld) {
			continue // it went to another node meanwhile
		} else if err != nil {
			return nil, err
		}
		for _, q := range c.Answer {
			key := slots.Key{Queue: q.Queue, Type: q.Type}
			sum := byKey[key]
			q.Waiting, q.Running = q.Waiting+sum.Waiting, q.Running+sum.Running
			q.Waits = append(q.Waits, sum.Waits...)
			byKey[key] = q // the slots of all partitions
		}
	}
	out := make([]QueueStats, 0, len(byKey))
	for _, q := range byKey {
		out = append(out, q)
	}
	slices.SortFunc(out, func(a, b QueueStats) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Type, b.Type))
	})
	return out, nil
}

// QueuesCall asks for the queues of a partition.
type QueuesCall struct{ repeating[[]QueueStats] }

func (*QueuesCall) op() string { return "read" }

func (c *QueuesCall) do(p *Partition) {
	c.Answer = p.tasks.stats()
	p.pipeline.reply(c)
}

// Line returns how a run stands in the line of its queue; false: it waits in none.
func (e *Engine) Line(ctx context.Context, id core.RunID) (line core.Line, waits bool) {
	ctx, cancel := context.WithTimeout(ctx, lineWithin)
	defer cancel()
	c := &LineCall{run: id}
	if err := e.of(id).ask(ctx, c); err != nil || c.Answer == nil {
		return core.Line{}, false
	}
	return e.cfg.Matcher.Limiter().Line(c.Answer)
}

// lineWithin is how long somebody waits for the place of a run in its queue.
const lineWithin = time.Second

// LineCall asks for the ticket with which a run waits in its queue.
type LineCall struct {
	repeating[*limit.Ticket]
	run core.RunID
}

func (*LineCall) op() string { return "read" }

func (c *LineCall) do(p *Partition) {
	c.Answer = p.admissions.tickets[c.run]
	p.pipeline.reply(c)
}

// Uses returns what the queues and services with limits have in use, once for the process, at an instant.
func (e *Engine) Uses(now core.Time) []limit.Use { return e.cfg.Matcher.Limiter().Uses(now) }

// mostWaits is how many waiting attempts of a queue are listed.
const mostWaits = 1000

// Here reports whether workers of this process execute tasks of a type from a queue.
func (e *Engine) Here(queue, taskType string) bool { return e.cfg.Matcher.Here(queue, taskType) }

// stats returns the numbers of the queues, unordered.
func (t *tasks) stats() []QueueStats {
	byKey := map[slots.Key]*QueueStats{}
	of := func(k slots.Key) *QueueStats {
		k = k.Ordinary()
		q := byKey[k]
		if q == nil {
			q = &QueueStats{Queue: k.Queue, Type: k.Type, Free: t.matcher.Room(k)}
			byKey[k] = q
		}
		return q
	}
	for k := range t.queues {
		if k.Type != admissionTask {
			of(k)
		}
	}
	for _, o := range t.offers {
		if o.queue.key.Type == admissionTask {
			continue
		}
		q := of(o.queue.key)
		q.Waiting++
		if s := &o.run.state.Steps[o.step]; len(q.Waits) < mostWaits {
			q.Waits = append(q.Waits, Wait{o.run.id(), s.ReadyAt, s.HeldNow()})
		}
	}
	for _, h := range t.held {
		of(h.slot.Key).Running++
	}
	out := make([]QueueStats, 0, len(byKey))
	for _, q := range byKey {
		out = append(out, *q)
	}
	return out
}

// Live counts the attempts that have a slot of a worker, also those whose start is not durable yet. Other than Stats it
// asks the loop, so it misses none that has taken its slot before. Errors: CodeClosed, CodeCancelled, and why the
// storage takes no work.
func (e *Engine) Live(ctx context.Context) (int, error) {
	n := 0
	for _, part := range e.all() {
		c := &LiveCall{}
		if err := part.ask(ctx, c); errors.Is(err, errHeld) {
			continue // its attempts are stopped
		} else if err != nil {
			return 0, err
		}
		n += c.Answer
	}
	return n, nil
}

// LiveCall asks how many attempts have a slot of a worker.
type LiveCall struct{ repeating[int] }

func (*LiveCall) op() string { return "read" }

func (c *LiveCall) do(p *Partition) {
	c.Answer = len(p.tasks.held)
	p.pipeline.reply(c)
}
