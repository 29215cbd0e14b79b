package engine

import (
	"context"
	"math"

	"github.com/pawl-dev/pawl/internal/core"
)

// A message to a run that is set aside would be lost: the run cannot take it, and its sender does not send it again. So
// the partition keeps it as a message to itself, in its own inbox, in the batch in which it would have had its effect.
// The next Open reads these messages before anything else happens. If a run is still set aside, its message is kept
// again.

// noMessages is after the sequence numbers of all messages.
const noMessages = math.MaxInt64

// keepMessage keeps a message for a run that is set aside.
func (p *Partition) keepMessage(m *core.Message, why error) {
	p.cfg.Log.Warn("a message is kept for a run that is set aside", "run", m.To.String(), "workflow id", m.Name,
		"error", why)
	kept := *m
	kept.At = p.now
	p.pipeline.post(p.cfg.Partition, p.cfg.Partition, &kept)
}

// receiveKept receives the messages that were kept for runs that were set aside. The runs get them in the order in
// which they came, and before later ones.
func (p *Partition) receiveKept(ctx context.Context, now core.Time) error {
	self := p.cfg.Partition
	after := make(map[int]uint64)
	for other := range p.messages.partitions {
		after[other] = noMessages
	}
	last := p.messages.taken[self]
	for {
		after[self] = last
		page, err := p.cfg.Journal.Inbox(ctx, self, after, inboxPage)
		if err != nil {
			return err
		}
		for i := range page {
			last = page[i].Seq
			p.deliver(&page[i], now)
			if p.handling.readErr != nil {
				return p.handling.readErr
			}
		}
		if len(page) == 0 {
			return nil
		}
	}
}
