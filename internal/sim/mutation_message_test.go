package sim

import (
	"context"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/nightly"
)

// TestChecksFindMistakesInMessages plants one mistake at a time in the messages between partitions. The checks must
// notice it.
func TestChecksFindMistakesInMessages(t *testing.T) {
	nightly.OnlyPlain(t, "it searches universes for a planted mistake")
	many := func(wrap func(journal.Journal) journal.Journal) Options {
		return Options{Partitions: 3, WrapJournal: wrap}
	}
	for _, m := range []struct {
		name string
		wrap func(journal.Journal) journal.Journal
		see  []Invariant
	}{
		{"a message is dropped on its way", changeInbox(func(in []journal.Message) []journal.Message {
			if len(in) > 1 {
				return in[1:]
			}
			return in
		}), []Invariant{Delivered, NoHang, Liveness}},
		{"a message is applied twice", changeInbox(func(in []journal.Message) []journal.Message {
			if len(in) > 0 {
				again := in[len(in)-1]
				again.Seq++ // the new number makes it another message for the receiver
				in = append(in, again)
			}
			return in
		}), []Invariant{Delivered}},
		{"messages are applied in the wrong order", changeInbox(func(in []journal.Message) []journal.Message {
			for i := 1; i < len(in); i++ {
				if in[i].From == in[i-1].From {
					in[i].Encoded, in[i-1].Encoded = in[i-1].Encoded, in[i].Encoded
				}
			}
			return in
		}), []Invariant{Delivered, NoHang}},
		{"it is not saved which messages were taken", changeBatches(func(b *journal.Batch) bool {
			b.Taken = nil
			return true
		}), []Invariant{Delivered, Liveness}},
		{"a message is not saved with its cause", func(j journal.Journal) journal.Journal {
			late := map[int][]journal.Message{}
			return changedJournal{j, func(b *journal.Batch) bool {
				out := late[b.Partition]
				late[b.Partition] = append([]journal.Message(nil), b.Out...)
				for i := range out {
					out[i].Seq = journal.MessageSeq(b.Seq, i)
				}
				b.Out = out
				return true
			}}
		}, []Invariant{Delivered, NoHang, Liveness}},
		{"a message is never sent", changeBatches(func(b *journal.Batch) bool {
			b.Out = nil
			return true
		}), []Invariant{Delivered}},
		{"a message for a run that is set aside is not kept", changeBatches(func(b *journal.Batch) bool {
			b.Out = slices.DeleteFunc(b.Out, func(m journal.Message) bool { return m.To == b.Partition })
			return true
		}), []Invariant{Delivered, NoHang}},
		{"a message that was kept is dropped", changeInbox(func(in []journal.Message) []journal.Message {
			return slices.DeleteFunc(in, func(m journal.Message) bool { return m.From == m.To })
		}), []Invariant{Delivered, NoHang, Liveness}},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			expectViolation(t, many(m.wrap), m.see)
		})
	}
}

// changedInbox is a journal that changes the messages which are read from an inbox.
type changedInbox struct {
	journal.Journal
	change func([]journal.Message) []journal.Message
}

func (j changedInbox) Inbox(
	ctx context.Context, partition int, after map[int]uint64, limit int,
) ([]journal.Message, error) {
	in, err := j.Journal.Inbox(ctx, partition, after, limit)
	return j.change(in), err
}

func changeInbox(change func([]journal.Message) []journal.Message) func(journal.Journal) journal.Journal {
	return func(j journal.Journal) journal.Journal { return changedInbox{j, change} }
}

// TestRunsSendMessagesBetweenPartitions checks that universes of several partitions do send messages.
func TestRunsSendMessagesBetweenPartitions(t *testing.T) {
	nightly.OnlyPlain(t, "it searches universes for a planted mistake")
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
