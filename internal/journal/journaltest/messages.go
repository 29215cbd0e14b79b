package journaltest

import (
	"math"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// mail has two owners, of the partitions 0 and 1, that send each other messages.
type mail struct {
	*fixture
	last [2]uint64
	own  [2]journal.Lease
}

func newMail(f *fixture) *mail {
	if n := f.j.PartitionCount(); n < 2 {
		f.Fatalf("the suite needs a journal with several partitions, this one has %d", n)
	}
	m := &mail{fixture: f}
	m.acquireBoth()
	return m
}

func (m *mail) acquireBoth() {
	m.Helper()
	for p := range m.own {
		m.own[p] = m.acquire(p)
		m.last[p] = m.own[p].Last
	}
}

// batch returns the next batch of a partition. It sends messages with these texts to the other partition.
func (m *mail) batch(partition int, texts ...string) *journal.Batch {
	b := &journal.Batch{Partition: partition, Epoch: m.own[partition].Epoch, Seq: m.last[partition] + 1}
	for i, text := range texts {
		b.Out = append(b.Out, journal.Message{
			From: partition, To: 1 - partition, Seq: journal.MessageSeq(b.Seq, i), Encoded: encoded(text),
		})
	}
	return b
}

func encoded(text string) []byte {
	return core.AppendMessage(nil, &core.Message{Name: text, Content: core.ChildAsk{}})
}

func (m *mail) put(b *journal.Batch) {
	m.Helper()
	if err := m.j.Append(m.ctx, b); err != nil {
		m.Fatal(err)
	}
	m.last[b.Partition]++
}

// inbox checks that a partition's messages after a sequence number have these texts.
func (m *mail) inbox(partition int, after uint64, limit int, texts ...string) []journal.Message {
	m.Helper()
	got, err := m.j.Inbox(m.ctx, partition, map[int]uint64{1 - partition: after}, limit)
	if err != nil {
		m.Fatal(err)
	}
	var names []string
	for _, msg := range got {
		read, err := core.ReadMessage(msg.Encoded)
		if err != nil || msg.From != 1-partition || msg.To != partition {
			m.Fatalf("%+v: %v", msg, err)
		}
		names = append(names, read.Name)
	}
	m.equal("messages", names, texts)
	return got
}

func testMessages(f *fixture) {
	m := newMail(f)
	m.inbox(1, 0, 10)
	first := m.batch(0, "a", "b")
	m.put(first)
	clear(first.Out[0].Encoded) // the journal must not keep it
	m.put(m.batch(0, "c"))
	m.put(m.batch(1, "back"))
	m.inbox(0, 0, 10, "back")
	all := m.inbox(1, 0, 10, "a", "b", "c")
	m.inbox(1, 0, 2, "a", "b")
	m.inbox(1, all[0].Seq, 2, "b", "c")
	m.inbox(1, all[2].Seq, 2)

	// A message that was taken is deleted, and does not come again.
	b := m.batch(1)
	b.Taken = []journal.Taken{{From: 0, Through: all[1].Seq}}
	m.put(b)
	m.inbox(1, 0, 10, "c")
	m.inbox(0, 0, 10, "back")
	late := m.batch(0, "d")
	late.Out = append(late.Out, all[1])
	m.put(late)
	m.inbox(1, 0, 10, "c", "d")
	doubled := m.batch(0)
	doubled.Out = append(doubled.Out, late.Out[0])
	m.put(doubled)
	m.inbox(1, 0, 10, "c", "d")
}

func testMessagesCrash(f *fixture) {
	m := newMail(f)
	m.put(m.batch(0, "a", "b"))
	f.j = f.Crash()
	m.acquireBoth()
	all := m.inbox(1, 0, 10, "a", "b")
	b := m.batch(1, "answer")
	b.Taken = []journal.Taken{{From: 0, Through: all[0].Seq}}
	m.put(b)
	f.j = f.Crash()
	m.acquireBoth()
	m.inbox(1, 0, 10, "b")
	m.inbox(0, 0, 10, "answer")
	m.equal("taken", m.own[1].Taken, map[int]uint64{0: all[0].Seq})
	renewed, err := m.j.Renew(m.ctx, 1, m.own[1].Epoch)
	m.fails("renew", err, nil)
	m.equal("taken", renewed.Taken, m.own[1].Taken)
	b = m.batch(1)
	b.Taken = []journal.Taken{{From: 0, Through: all[1].Seq}}
	m.put(b)
	f.j = f.Reopen()
	m.acquireBoth()
	m.inbox(1, 0, 10)
	m.equal("taken", m.own[1].Taken, map[int]uint64{0: all[1].Seq})
}

// testMessagesKept checks that a partition sends messages to itself, also in the batch that takes earlier ones.
func testMessagesKept(f *fixture) {
	m := newMail(f)
	own := func(b *journal.Batch) *journal.Batch {
		for i := range b.Out {
			b.Out[i].To = b.Partition
		}
		return b
	}
	kept := func(texts ...string) (all []journal.Message) {
		all, err := m.j.Inbox(m.ctx, 0, map[int]uint64{1: math.MaxInt64}, 10)
		m.fails("inbox", err, nil)
		var names []string
		for _, msg := range all {
			read, err := core.ReadMessage(msg.Encoded)
			if err != nil || msg.From != 0 || msg.To != 0 {
				m.Fatalf("%+v: %v", msg, err)
			}
			names = append(names, read.Name)
		}
		m.equal("messages", names, texts)
		return all
	}
	m.put(own(m.batch(0, "a", "b")))
	m.put(m.batch(1, "from elsewhere"))
	all := kept("a", "b")
	b := own(m.batch(0, "a again"))
	b.Taken = []journal.Taken{{From: 0, Through: all[1].Seq}}
	m.put(b)
	kept("a again")
	f.j = f.Crash()
	m.acquireBoth()
	kept("a again")
	m.equal("taken", m.own[0].Taken, map[int]uint64{0: all[1].Seq})
	m.inbox(1, 0, 10)
}

// testMessagesAtOnce checks that, if a batch is refused, its messages are neither sent nor taken.
func testMessagesAtOnce(f *fixture) {
	m := newMail(f)
	m.put(m.batch(1, "to take"))
	all := m.inbox(0, 0, 10, "to take")
	for _, spoil := range []func(b *journal.Batch){
		func(b *journal.Batch) { b.Epoch-- },
		func(b *journal.Batch) { b.Seq++ },
	} {
		b := m.batch(0, "never")
		b.Taken = []journal.Taken{{From: 1, Through: all[0].Seq}}
		spoil(b)
		if err := m.j.Append(m.ctx, b); err == nil {
			m.Fatal("the batch was accepted")
		}
		m.inbox(1, 0, 10)
		m.inbox(0, 0, 10, "to take")
	}
}

// testMessagesMany sends messages in both directions at the same time.
func testMessagesMany(f *fixture) {
	m := newMail(f)
	done := make(chan error, 2)
	const batches = 200
	for p := range m.own {
		go func() {
			taken := uint64(0)
			for range batches {
				b := m.batch(p, "x", "y")
				in, err := m.j.Inbox(m.ctx, p, map[int]uint64{1 - p: taken}, 3)
				if n := len(in); err == nil && n > 0 {
					taken = in[n-1].Seq
					b.Taken = []journal.Taken{{From: 1 - p, Through: taken}}
				}
				if err == nil {
					err = m.j.Append(m.ctx, b)
				}
				if err != nil {
					done <- err
					return
				}
				m.last[p]++
			}
			done <- nil
		}()
	}
	for range m.own {
		if err := <-done; err != nil {
			m.Fatal(err)
		}
	}
	f.j = f.Reopen()
	m.acquireBoth()
	for p := range m.own {
		rest, err := m.j.Inbox(m.ctx, p, nil, 2*batches)
		m.fails("inbox", err, nil)
		for _, msg := range rest {
			if msg.Seq <= m.own[p].Taken[1-p] {
				m.Errorf("message %d was taken, and is in the inbox again", msg.Seq)
			}
		}
	}
}
