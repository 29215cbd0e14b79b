package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

func (s *storage) Partitions(ctx context.Context) (spans []journal.Span, err error) {
	err = s.read(ctx, "partitions", s.in("SELECT partition, last, through FROM {schema}.partitions ORDER BY"+
		" partition"), nil,
		func() { spans = nil },
		func(r pgx.Rows) error {
			var p journal.Span
			err := r.Scan(&p.Partition, &p.Last, &p.Through)
			spans = append(spans, p)
			return err
		})
	return spans, err
}

// tailRows is how many batches are read at once.
const tailRows = 32

type tailBatch struct {
	seq     uint64
	entries []byte
}

// Tail implements journal.Journal. It holds no snapshot while fn runs. If the journal deletes batches meanwhile, Tail
// goes on after them.
func (s *storage) Tail(
	ctx context.Context, partition int, after uint64, fn func(seq uint64, entries []core.Entry) error,
) error {
	begun := false
	for {
		batches, err := s.tail(ctx, partition, after)
		if err != nil {
			return err
		}
		for i, b := range batches {
			if begun && b.seq != after+1 {
				through := uint64(0) // batches from the same read cannot have a gap
				if i == 0 {
					through, err = s.through(ctx, partition)
				}
				if err == nil && through < b.seq-1 {
					err = s.wrap("tail", fmt.Errorf("%w: batch %d of partition %d follows batch"+
						" %d", core.ErrBroken, b.seq,
						partition, after))
				}
				if err != nil {
					return err
				}
			}
			begun, after = true, b.seq
			entries, err := core.ReadEntries(b.entries)
			if err != nil {
				return s.wrap("tail", fmt.Errorf("batch %d of partition %d: %w", b.seq, partition, err))
			}
			if err := fn(b.seq, entries); err != nil {
				return err
			}
		}
		if len(batches) < tailRows {
			return nil
		}
	}
}

// tail reads some batches after one.
func (s *storage) tail(ctx context.Context, partition int, after uint64) (batches []tailBatch, err error) {
	err = s.read(ctx, "tail", s.in("SELECT seq, sum, entries FROM {schema}.journal WHERE partition = $1 AND seq > $2"+
		" ORDER BY seq LIMIT $3"), []any{partition, int64(after), tailRows},
		func() { batches = nil },
		func(r pgx.Rows) error {
			var b tailBatch
			var want int32
			err := r.Scan(&b.seq, &want, &b.entries)
			if err == nil {
				err = check(b.entries, want)
			}
			if err != nil {
				return fmt.Errorf("batch %d of partition %d: %w", b.seq, partition, err)
			}
			batches = append(batches, b)
			return nil
		})
	return batches, err
}

// through reads the watermark: the view contains every batch up to it.
func (s *storage) through(ctx context.Context, partition int) (seq uint64, err error) {
	err = s.read(ctx, "tail", s.in("SELECT through FROM {schema}.partitions WHERE partition = $1"), []any{partition},
		func() {}, func(r pgx.Rows) error { return r.Scan(&seq) })
	return seq, err
}

// historyText reads row and history in one statement, so both are from one snapshot.
const historyText = "SELECT r.applied, r.piece, h.seq, h.sum, h.entries FROM {schema}.runs_data r" +
	" LEFT JOIN {schema}.history h ON h.run = r.id WHERE r.id = $1 ORDER BY h.seq"

func (s *storage) History(ctx context.Context, id core.RunID) (h journal.History, err error) {
	found := false
	err = s.read(ctx, "history", s.in(historyText), []any{[16]byte(id)},
		func() { h, found = journal.History{}, false },
		func(r pgx.Rows) error {
			var seq *uint64
			var want *int32
			var first, src []byte
			if err := r.Scan(&h.Applied, &first, &seq, &want, &src); err != nil {
				return err
			}
			if !found && first != nil {
				if err := readFirst(&h, id, first); err != nil {
					return err
				}
			}
			found = true
			if seq == nil || want == nil {
				return nil
			}
			return readPiece(&h, id, *seq, src, *want)
		})
	switch {
	case err != nil:
		return journal.History{}, err
	case !found:
		return journal.History{}, fmt.Errorf("%w: run %s", journal.ErrNotFound, id)
	case len(h.Entries) == 0: // row and history are written in one statement
		return journal.History{}, s.wrap("history", fmt.Errorf("%w: run %s has a row and no"+
			" history", core.ErrBroken, id))
	}
	return h, nil
}

// readFirst adds a piece of history that is folded in the row of its run.
func readFirst(h *journal.History, run core.RunID, piece []byte) error {
	entries, err := entriesOf(piece)
	if err == nil {
		err = readEntries(h, run, entries)
	}
	if err != nil {
		return fmt.Errorf("history of run %s, first piece: %w", run, err)
	}
	return nil
}

// readPiece adds a piece of history.
func readPiece(h *journal.History, run core.RunID, seq uint64, src []byte, want int32) error {
	err := check(src, want)
	if err == nil {
		err = readEntries(h, run, src)
	}
	if err != nil {
		return fmt.Errorf("history of run %s, piece of batch %d: %w", run, seq, err)
	}
	return nil
}

func readEntries(h *journal.History, run core.RunID, src []byte) error {
	for len(src) > 0 {
		e, rest, err := core.ReadHistory(run, src)
		if err != nil {
			return err
		}
		h.Entries, src = append(h.Entries, e), rest
	}
	return nil
}

func (s *storage) Definition(ctx context.Context, id core.DefinitionID) (journal.Definition, error) {
	d, found := journal.Definition{ID: id}, false
	err := s.read(ctx, "definition", s.in("SELECT kind, name, source FROM {schema}.definitions WHERE id = $1"),
		[]any{[16]byte(id)}, func() {},
		func(r pgx.Rows) error {
			found = true
			err := r.Scan(&d.Kind, &d.Name, &d.Source)
			d.Kind, d.Name = original(d.Kind), original(d.Name)
			return err
		})
	if err == nil && !found {
		err = fmt.Errorf("%w: definition %s", journal.ErrNotFound, id)
	}
	return d, err
}

// Find implements journal.Journal. If several runs match, it returns the newest.
func (s *storage) Find(ctx context.Context, by journal.Lookup) (core.RunID, error) {
	return s.find(ctx, by, nil)
}

// find finds a run of some partitions; nil: of all.
func (s *storage) find(ctx context.Context, by journal.Lookup, partitions []int32) (id core.RunID, err error) {
	text, args := "WHERE left(workflow_id, 200) = left($1, 200) AND workflow_id = $1 AND phase < $2",
		[]any{stored(by.WorkflowID), int16(core.RunSucceeded)}
	if by.WorkflowID == "" {
		text, args = "WHERE left(key, 200) = left($1, 200) AND key = $1 AND workflow = $2",
			[]any{stored(by.Key), stored(by.Workflow)}
	}
	if by.Here {
		partitions = []int32{int32(by.Partition)}
	}
	if partitions != nil {
		text += " AND partition = ANY ($3::int[])"
		args = append(args, partitions)
	}
	found := false
	if by.WorkflowID != "" || by.Key != "" {
		err = s.read(ctx, "find", s.in("SELECT id FROM {schema}.runs_data "+text+" ORDER BY id DESC LIMIT 1"), args,
			func() { found = false },
			func(r pgx.Rows) error { found = true; return r.Scan((*[16]byte)(&id)) })
	} else {
		err = errors.Join(ctx.Err(), s.usable(false))
	}
	if err == nil && !found {
		err = fmt.Errorf("%w: no run with workflow id %q, or key %q of workflow %q",
			journal.ErrNotFound, by.WorkflowID, by.Key, by.Workflow)
	}
	return id, err
}

// inboxText reads of each sender the messages after one.
const inboxText = "SELECT i.sender, i.seq, i.sum, i.message FROM unnest($2::int[], $3::bigint[]) AS a (sender," +
	" after)," +
	" LATERAL (SELECT m.sender, m.seq, m.sum, m.message FROM {schema}.inbox m WHERE m.target = $1 AND m.sender =" +
	" a.sender" +
	" AND m.seq > greatest(a.after, (SELECT t.through FROM {schema}.taken t WHERE t.partition = $1 AND t.sender =" +
	" a.sender))" +
	" ORDER BY m.seq LIMIT $4) AS i ORDER BY i.sender, i.seq"

// inboxBytes limits the size of the messages of one sender that are returned at once.
const inboxBytes = 1 << 20

func (s *storage) Inbox(
	ctx context.Context, partition int, after map[int]uint64, limit int,
) ([]journal.Message, error) {
	return s.inbox(ctx, partition, nil, after, limit)
}

// inbox reads messages of some senders; nil: of all.
func (s *storage) inbox(
	ctx context.Context, partition int, senders []int32, after map[int]uint64, limit int,
) (out []journal.Message, err error) {
	if senders == nil {
		for sender := range s.count {
			senders = append(senders, int32(sender))
		}
	}
	from := make([]int64, 0, len(senders))
	for _, sender := range senders {
		from = append(from, int64(after[int(sender)]))
	}
	size := 0
	err = s.read(ctx, "inbox", s.in(inboxText), []any{partition, senders, from, limit},
		func() { out, size = nil, 0 },
		func(r pgx.Rows) error {
			m := journal.Message{To: partition}
			var want int32
			if err := r.Scan(&m.From, &m.Seq, &want, &m.Encoded); err != nil {
				return err
			}
			if err := check(m.Encoded, want); err != nil {
				return fmt.Errorf("message %d of partition %d to partition %d: %w", m.Seq, m.From, partition, err)
			}
			if n := len(out); n > 0 && out[n-1].From != m.From {
				size = 0
			}
			if size < inboxBytes {
				out = append(out, m)
			}
			size += len(m.Encoded)
			return nil
		})
	return out, err
}
