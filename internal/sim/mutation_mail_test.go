package sim

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl/internal/journal"
)

// TestChecksBiteMessages does something wrong to the messages between partitions.
func TestChecksBiteMessages(t *testing.T) {
	many := func(wrap func(journal.Journal) journal.Journal) Options { return Options{Partitions: 3, Wrap: wrap} }
	for _, m := range []struct {
		name string
		wrap func(journal.Journal) journal.Journal
		see  []Invariant
	}{
		{"a message is dropped on its way", post(func(in []journal.Message) []journal.Message {
			if len(in) > 1 {
				return in[1:]
			}
			return in
		}), []Invariant{Delivered, NoHang, Liveness}},
		{"a message is applied twice", post(func(in []journal.Message) []journal.Message {
			if len(in) > 0 {
				again := in[len(in)-1]
				again.Seq++ // as the receiver tells messages apart
				in = append(in, again)
			}
			return in
		}), []Invariant{Delivered}},
		{"messages are applied in the wrong order", post(func(in []journal.Message) []journal.Message {
			for i := 1; i < len(in); i++ {
				if in[i].From == in[i-1].From {
					in[i].Encoded, in[i-1].Encoded = in[i-1].Encoded, in[i].Encoded
				}
			}
			return in
		}), []Invariant{Delivered, NoHang}},
		{"what was taken is not saved", bend(func(b *journal.Batch) bool {
			b.Taken = nil
			return true
		}), []Invariant{Delivered, Liveness}},
		{"a message is not saved with its cause", func(j journal.Journal) journal.Journal {
			late := map[int][]journal.Message{}
			return bent{j, func(b *journal.Batch) bool {
				out := late[b.Partition]
				late[b.Partition] = append([]journal.Message(nil), b.Out...)
				for i := range out {
					out[i].Seq = journal.MessageSeq(b.Seq, i)
				}
				b.Out = out
				return true
			}}
		}, []Invariant{Delivered, NoHang, Liveness}},
		{"a message is never sent", bend(func(b *journal.Batch) bool {
			b.Out = nil
			return true
		}), []Invariant{Delivered}},
	} {
		t.Run(m.name, func(t *testing.T) { bites(t, many(m.wrap), m.see) })
	}
}

// misread is a journal whose inbox reads as something else.
type misread struct {
	journal.Journal
	change func([]journal.Message) []journal.Message
}

func (j misread) Inbox(ctx context.Context, partition int, after map[int]uint64, limit int) ([]journal.Message, error) {
	in, err := j.Journal.Inbox(ctx, partition, after, limit)
	return j.change(in), err
}

func post(change func([]journal.Message) []journal.Message) func(journal.Journal) journal.Journal {
	return func(j journal.Journal) journal.Journal { return misread{j, change} }
}

// TestFamiliesSpread lives universes of several partitions and expects that messages were sent in most of them.
func TestFamiliesSpread(t *testing.T) {
	messages := 0
	for seed := uint64(1); seed <= 60; seed++ {
		r, err := Run(seed, Options{Partitions: 4})
		if err != nil {
			t.Fatal(err)
		}
		messages += r.Messages
	}
	if messages < 60 {
		t.Errorf("%d messages in 60 universes", messages)
	}
}
