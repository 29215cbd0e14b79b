package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl/internal/journal"
)

// messageTables store what partitions send each other.
const messageTables = `
CREATE TABLE inbox (
	target  INTEGER NOT NULL, -- the partition that the message is for
	sender  INTEGER NOT NULL, -- the partition that it is from
	seq     INTEGER NOT NULL, -- the sender's batch << 20 | number within the batch
	sum     INTEGER NOT NULL, -- CRC-32C of message
	message BLOB NOT NULL,
	PRIMARY KEY (target, sender, seq)
) WITHOUT ROWID;
CREATE TABLE taken (
	partition INTEGER NOT NULL,
	sender    INTEGER NOT NULL,
	through   INTEGER NOT NULL, -- the last of the sender's messages that the partition has taken
	PRIMARY KEY (partition, sender)
) WITHOUT ROWID;
`

// messages are the writer's statements about messages.
type messages struct{ send, take, mark *sqlite.Stmt }

func (m *messages) prepare(c *conn) (err error) {
	for _, s := range []struct {
		stmt  **sqlite.Stmt
		query string
	}{
		{&m.send, "INSERT INTO inbox SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT EXISTS" +
			" (SELECT 1 FROM taken WHERE partition = ?1 AND sender = ?2 AND through >= ?3) ON CONFLICT DO NOTHING"},
		{&m.take, "DELETE FROM inbox WHERE target = ? AND sender = ? AND seq <= ?"},
		{&m.mark, "INSERT INTO taken VALUES (?, ?, ?) ON CONFLICT (partition, sender) DO UPDATE" +
			" SET through = max(through, excluded.through)"},
	} {
		if *s.stmt, err = c.stmt(s.query); err != nil {
			return err
		}
	}
	return nil
}

// messages writes what a batch sends and takes. It returns about how many bytes that adds to the log.
func (w *writer) messages(b *journal.Batch) (size int, err error) {
	for i := range b.Out {
		m, s := &b.Out[i], w.mail.send
		s.BindInt64(1, int64(m.To))
		s.BindInt64(2, int64(b.Partition))
		s.BindInt64(3, int64(m.Seq))
		s.BindInt64(4, sum(m.Encoded))
		s.BindBytes(5, m.Encoded)
		if err := do(s); err != nil {
			return 0, err
		}
		size += len(m.Encoded) + rowCost
	}
	for _, t := range b.Taken {
		for _, s := range []*sqlite.Stmt{w.mail.take, w.mail.mark} {
			s.BindInt64(1, int64(b.Partition))
			s.BindInt64(2, int64(t.From))
			s.BindInt64(3, int64(t.Through))
			if err := do(s); err != nil {
				return 0, err
			}
		}
		size += 2 * rowCost
	}
	return size, nil
}

// takenBy reads which messages a partition has taken.
func takenBy(c *conn, partition int) (taken map[int]uint64, err error) {
	err = query(c, "SELECT sender, through FROM taken WHERE partition = ?",
		func(s *sqlite.Stmt) { s.BindInt64(1, int64(partition)) },
		func(s *sqlite.Stmt) (bool, error) {
			if taken == nil {
				taken = make(map[int]uint64)
			}
			taken[s.ColumnInt(0)] = uint64(s.ColumnInt64(1))
			return false, nil
		})
	return taken, err
}

func (j *Journal) Inbox(
	ctx context.Context, partition int, after map[int]uint64, limit int,
) (out []journal.Message, err error) {
	if j.readOnly {
		return nil, ctx.Err() // only an owner takes messages
	}
	err = j.read(ctx, func(c *conn) (err error) {
		defer sqlitex.Transaction(c.Conn)(&err)
		for from := range j.count {
			if out, err = inboxFrom(c, partition, from, after[from], limit, out); err != nil {
				return j.wrap("inbox", err)
			}
		}
		return nil
	})
	return out, err
}

// inboxBytes limits how many bytes are read of one sender at once.
const inboxBytes = 1 << 20

// inboxFrom adds the messages of one sender.
func inboxFrom(
	c *conn, partition, from int, after uint64, limit int, out []journal.Message,
) ([]journal.Message, error) {
	size := 0
	const text = "SELECT seq, sum, message FROM inbox WHERE target = ? AND sender = ? AND seq > ? ORDER BY seq LIMIT ?"
	err := query(c, text,
		func(s *sqlite.Stmt) {
			s.BindInt64(1, int64(partition))
			s.BindInt64(2, int64(from))
			s.BindInt64(3, int64(after))
			s.BindInt64(4, int64(limit))
		},
		func(s *sqlite.Stmt) (bool, error) {
			m := journal.Message{From: from, To: partition, Seq: uint64(s.ColumnInt64(0))}
			var err error
			if m.Encoded, err = c.blob(s, 1); err != nil {
				return true, fmt.Errorf("message %d of partition %d to partition %d: %w", m.Seq, from, partition, err)
			}
			out = append(out, m)
			size += len(m.Encoded)
			return size >= inboxBytes, nil
		})
	return out, err
}
