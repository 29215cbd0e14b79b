package engine

import (
	"context"
	"maps"
	"math"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// messages sends messages to other partitions and reads those that they sent. A core.Message is an action of one run on
// another run. If both live in the same partition, it is received at once, in the batch of its cause. Otherwise it is
// stored with that batch, and the other partition reads it from its inbox. There it has its effect in the same batch
// that records that it was taken. So it has its effect exactly once.
type messages struct {
	*base
	heart
	pipeline *pipeline
	receive  func(*core.Message) // takes a message to a run of this partition

	// taken is the number of the last message that was received from each sender. The batch may not be durable yet.
	taken map[int]uint64
	// blocked are senders whose next message this version cannot read. Their later messages must not be received before
	// it, so they wait until a version that can read it opens the partition.
	blocked map[int]bool

	readAt     core.Time // when to read the inbox; 0: when Expect reports that messages may have come
	reading    bool      // a read of the inbox is under way
	generation int       // increases when the memory is forgotten; the result of an earlier read is then ignored
}

const (
	inboxPage  = 256         // how many messages of the inbox are read at once
	inboxRetry = time.Second // the pause after which a failed read of the inbox is repeated

	// maxClockLead is how far a message moves the receiver's time forward, if the sender's clock is ahead.
	maxClockLead = time.Second
)

// forget drops what was read, because the partition forgets its memory.
func (m *messages) forget() {
	*m = messages{
		base: m.base, heart: m.heart, pipeline: m.pipeline, receive: m.receive, blocked: make(map[int]bool),
		generation: m.generation + 1,
	}
}

// open continues after the messages that were taken. It makes the inbox be read at once, for messages that came
// meanwhile.
func (m *messages) open(taken map[int]uint64, now core.Time) {
	m.taken = make(map[int]uint64)
	maps.Copy(m.taken, taken)
	if m.partitions > 1 {
		m.readAt = now
	}
}

// due returns when to read the inbox. Zero means not before a message comes.
func (m *messages) due() core.Time {
	if m.reading {
		return 0
	}
	return m.readAt
}

// send sends a message to another run. If that run lives in this partition, the message has its effect at once, in the
// open batch. Otherwise the message is stored with the open batch.
func (m *messages) send(out core.Message) {
	if m.partitions > 1 {
		if to := m.home(out.PartitionKey()); to != m.cfg.Partition {
			out.At = m.now
			m.pipeline.post(m.cfg.Partition, to, &out)
			return
		}
	}
	m.receive(&out)
}

// post puts a message to another partition into the open batch.
func (l *pipeline) post(from, to int, m *core.Message) {
	b := l.open
	start := len(b.encodedMessages)
	b.encodedMessages = core.AppendMessage(b.encodedMessages, m)
	end := len(b.encodedMessages)
	b.posted = append(b.posted, journal.Message{
		From: from, To: to, Seq: journal.MessageSeq(b.seq, len(b.posted)), Encoded: b.encodedMessages[start:end:end],
	})
}

// take records in the open batch that a message was taken.
func (l *pipeline) take(from int, seq uint64) {
	b := l.open
	for i := range b.taken {
		if b.taken[i].From == from {
			b.taken[i].Through = seq
			return
		}
	}
	b.taken = append(b.taken, journal.Taken{From: from, Through: seq})
}

// Expect notes that messages for the partition may have come. The driver then reads them; see Fetch. An unneeded call
// does no harm. The driver also calls it from time to time, because a sender that crashes cannot report that it sent
// something.
func (m *messages) Expect() {
	if m.partitions > 1 {
		m.readAt = max(m.now, 1)
	}
}

// Fetch is one read of the inbox: at most Limit messages of each sender, after the one that was taken last.
type Fetch struct {
	After      map[int]uint64
	Limit      int
	generation int
}

// Fetch returns what to read from the inbox, or false if there is nothing to read now. The driver passes it to
// Journal.Inbox and calls Fetched with the result.
func (m *messages) Fetch(now core.Time) (Fetch, bool) {
	m.at(now)
	if m.reading || m.readAt == 0 || m.readAt > m.now || m.pipeline.open == nil || !m.pipeline.hasRoom(m.cfg.Inflight) {
		return Fetch{}, false
	}
	m.reading, m.readAt = true, 0
	after := maps.Clone(m.taken)
	after[m.cfg.Partition] = noMessages
	return Fetch{After: after, Limit: inboxPage, generation: m.generation}, true
}

// Fetched receives the messages that were read. Their effects join the open batch. A failed read is repeated after a
// while.
func (m *messages) Fetched(f Fetch, messages []journal.Message, err error, now core.Time) {
	m.at(now)
	if f.generation != m.generation {
		return // the partition has forgotten its memory since the read began
	}
	m.reading = false
	if err != nil {
		m.cfg.Log.Error("messages from other partitions could not be read, trying again",
			"id", "messages-unreadable", "error", err)
		m.readAt = m.now.Add(inboxRetry)
		return
	}
	count := make(map[int]int)
	for i := range messages {
		msg := &messages[i]
		if count[msg.From]++; count[msg.From] == f.Limit {
			m.Expect() // there may be more
		}
		m.deliver(msg, now)
		if m.readErr != nil {
			return // the open batch will not be saved
		}
	}
}

// deliver receives a message unless it was received before.
func (m *messages) deliver(msg *journal.Message, now core.Time) {
	if msg.Seq <= m.taken[msg.From] || m.blocked[msg.From] {
		return
	}
	what, err := core.ReadMessage(msg.Encoded)
	if err != nil {
		m.blocked[msg.From] = true
		m.cfg.Log.Error("a message from another partition has a form that this version cannot read; "+
			"it and the later messages of that partition wait for a newer version", "id", "message-of-newer-version",
			"from", msg.From, "message", msg.Seq, "error", err)
		return
	}
	m.taken[msg.From] = msg.Seq
	m.pipeline.take(msg.From, msg.Seq)
	m.at(min(what.At, now.Add(maxClockLead))) // the effect must not have an earlier time than its cause
	m.receive(&what)
	m.settle()
}

// notifyAfterFailure notifies the partitions to which a failed append may have stored messages.
func (m *messages) notifyAfterFailure() {
	for _, to := range m.pipeline.unnotified {
		m.cfg.Sent(to)
	}
	m.pipeline.unnotified = nil
}

// notifyReceivers notifies the partitions to which a durable batch has messages.
func (m *messages) notifyReceivers(b *batch) {
	last := -1
	for i := range b.posted {
		if to := b.posted[i].To; to != last && to != m.cfg.Partition {
			last = to
			m.cfg.Sent(to)
		}
	}
}

// A message to a run that is set aside would be lost: the run cannot take it, and its sender does not send it again. So
// the partition keeps it as a message to itself, in its own inbox, in the batch in which it would have had its effect.
// The next Open reads these messages before anything else happens. If a run is still set aside, its message is kept
// again.

// noMessages is after the sequence numbers of all messages.
const noMessages = math.MaxInt64

// keep keeps a message for a run that is set aside.
func (m *messages) keep(lost *core.Message, why error) {
	m.cfg.Log.Warn("a message is kept for a run that is set aside", "run", lost.To.String(), "workflow id", lost.Name,
		"error", why)
	kept := *lost
	kept.At = m.now
	m.pipeline.post(m.cfg.Partition, m.cfg.Partition, &kept)
}

// receiveKept receives the messages that were kept for runs that were set aside. The runs get them in the order in
// which they came, and before later ones.
func (m *messages) receiveKept(ctx context.Context, now core.Time) error {
	self := m.cfg.Partition
	after := make(map[int]uint64)
	for other := range m.partitions {
		after[other] = noMessages
	}
	last := m.taken[self]
	for {
		after[self] = last
		page, err := m.cfg.Journal.Inbox(ctx, self, after, inboxPage)
		if err != nil {
			return err
		}
		for i := range page {
			last = page[i].Seq
			m.deliver(&page[i], now)
			if m.readErr != nil {
				return m.readErr
			}
		}
		if len(page) == 0 {
			return nil
		}
	}
}
