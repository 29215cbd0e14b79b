package engine

import (
	"maps"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// mail is what partitions send each other. What a run does to another one is a core.Message: where both live in the same
// partition it is received at once, in the batch of its cause; else it is stored with that batch, the other partition reads
// it from its inbox, and what it causes there is saved with the note that it was taken.
type mail struct {
	count int            // of partitions
	taken map[int]uint64 // by sender: the last message that was received, in a batch that may not be durable yet
	// blocked are senders whose next message this version cannot read. What follows it would be out of order, so nothing of
	// theirs is taken until the partition is opened by a version that can.
	blocked map[int]bool

	readAt     core.Time // when the inbox is to be read; 0: not before somebody says that a message came
	reading    bool
	generation int // tells a reading from those of a memory that was forgotten
}

// Sizes of what is read from the inbox at once, and how long a reading that failed is not repeated.
const (
	inboxPage  = 256
	inboxAgain = time.Second
)

// mostAhead bounds how far a sender's clock moves the receiver's time on.
const mostAhead = time.Second

// forget drops what was read, when the memory is forgotten.
func (m *mail) forget() {
	*m = mail{count: m.count, blocked: make(map[int]bool), generation: m.generation + 1}
}

// open begins where the partition stands. What came before is read at once.
func (m *mail) open(taken map[int]uint64, now core.Time) {
	m.taken = make(map[int]uint64)
	maps.Copy(m.taken, taken)
	if m.count > 1 {
		m.readAt = now
	}
}

// due returns when the inbox is to be read; zero: not before a message comes.
func (m *mail) due() core.Time {
	if m.reading {
		return 0
	}
	return m.readAt
}

// home returns the partition of a partition key.
func (m *mail) home(key uint16) int { return int(key) % m.count }

// ownKey returns a partition key of this partition that is as random as the number.
func (p *Partition) ownKey(random uint16) uint16 {
	n := p.mail.count
	return uint16(int(random)%(journal.MostPartitions/n)*n + p.cfg.Partition)
}

// owns reports whether a run lives in this partition.
func (p *Partition) owns(id core.RunID) bool {
	return p.mail.count == 1 || p.mail.home(core.PartitionKey(id)) == p.cfg.Partition
}

// send does something to another run: in the open batch where it lives here, else by a message that is saved with it.
func (p *Partition) send(m core.Message) {
	if p.mail.count > 1 {
		if to := p.mail.home(m.PartitionKey()); to != p.cfg.Partition {
			m.At = p.now
			p.pipeline.post(p.cfg.Partition, to, &m)
			return
		}
	}
	p.receive(m.To, m.Name, m.Content)
}

// post puts a message into the open batch.
func (l *pipeline) post(from, to int, m *core.Message) {
	b := l.open
	start := len(b.mail)
	b.mail = core.AppendMessage(b.mail, m)
	b.posted = append(b.posted, journal.Message{
		From: from, To: to, Seq: journal.MessageSeq(b.seq, len(b.posted)), Encoded: b.mail[start:len(b.mail):len(b.mail)],
	})
}

// take notes in the open batch that a message was received.
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

// Expect says that messages for the partition may have come. Who drives it reads them; see Fetch. It may be said too often,
// and is to be said now and then where the one who knows may have been unable to say it.
func (p *Partition) Expect() {
	if p.mail.count > 1 {
		p.mail.readAt = max(p.now, 1)
	}
}

// Fetch is one reading of the inbox.
type Fetch struct {
	After      map[int]uint64
	Limit      int
	generation int
}

// Fetch returns what is to be read of the inbox, by Journal.Inbox, if it is time. Fetched follows.
func (p *Partition) Fetch(now core.Time) (Fetch, bool) {
	p.at(now)
	m := &p.mail
	if m.reading || m.readAt == 0 || m.readAt > p.now || p.pipeline.open == nil || !p.hasRoom(p.cfg.Inflight) {
		return Fetch{}, false
	}
	m.reading, m.readAt = true, 0
	return Fetch{After: maps.Clone(m.taken), Limit: inboxPage, generation: m.generation}, true
}

// Fetched takes what was read of the inbox: the messages have their effect in the open batch, each once. A reading that
// failed is repeated after a while.
func (p *Partition) Fetched(f Fetch, messages []journal.Message, err error, now core.Time) {
	p.at(now)
	m := &p.mail
	if f.generation != m.generation {
		return // what was read belongs to a memory that is forgotten
	}
	m.reading = false
	if err != nil {
		p.cfg.Log.Error("messages from other partitions cannot be read, trying again", "error", err)
		m.readAt = p.now.Add(inboxAgain)
		return
	}
	count := make(map[int]int)
	for i := range messages {
		msg := &messages[i]
		if count[msg.From]++; count[msg.From] == f.Limit {
			p.Expect() // there may be more
		}
		p.deliver(msg, now)
		if p.unread != nil {
			return // the open batch is not going to be saved
		}
	}
}

// deliver receives a message, unless it was received before.
func (p *Partition) deliver(msg *journal.Message, now core.Time) {
	m := &p.mail
	if msg.Seq <= m.taken[msg.From] || m.blocked[msg.From] {
		return
	}
	what, err := core.ReadMessage(msg.Encoded)
	if err != nil {
		m.blocked[msg.From] = true
		p.cfg.Log.Error("a message from another partition cannot be read; it and those that follow it are left for a version"+
			" that can", "from", msg.From, "message", msg.Seq, "error", err)
		return
	}
	m.taken[msg.From] = msg.Seq
	p.pipeline.take(msg.From, msg.Seq)
	p.at(min(what.At, now.Add(mostAhead))) // what follows is not before its cause
	p.receive(what.To, what.Name, what.Content)
	p.settle()
}

// tellAgain says where messages may be that a failed append has stored after all.
func (p *Partition) tellAgain() {
	for _, to := range p.pipeline.untold {
		p.cfg.Sent(to)
	}
	p.pipeline.untold = nil
}

// tellReceivers says where messages of a durable batch are to be read.
func (p *Partition) tellReceivers(b *batch) {
	told := -1
	for i := range b.posted {
		if to := b.posted[i].To; to != told {
			told = to
			p.cfg.Sent(to)
		}
	}
}
