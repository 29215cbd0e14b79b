package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

const mostProblems = 100

// inspection collects the problems.
type inspection struct {
	s         *storage
	keeps     []int32                   // the partitions that the store keeps; nil: all
	taken     []map[int]uint64          // the messages that were taken, by partition and sender
	undefined map[core.DefinitionID]int // definitions that are not in this store, and how many runs have them
	journal.Inspection
}

func (i *inspection) problem(format string, args ...any) {
	if len(i.Problems) < mostProblems {
		i.Problems = append(i.Problems, fmt.Sprintf(format, args...))
	}
}

// inspect looks at one store. Each part is read in a statement of its own. A partition at work moves between them, so a
// comparison across tables is made within one statement.
func (s *storage) inspect(ctx context.Context, keeps []int32, taken []map[int]uint64) (*inspection, error) {
	i := &inspection{s: s, keeps: keeps, taken: taken, undefined: map[core.DefinitionID]int{}}
	for _, part := range []func(context.Context) error{
		i.server, i.partitions, i.batches, i.histories, i.rows, i.messages,
	} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	return i, nil
}

func (i *inspection) server(ctx context.Context) error {
	st, err := i.s.look(ctx)
	if err != nil {
		return i.s.wrap("check", err)
	}
	i.Schema = st.version
	if i.Bytes, err = i.s.Bytes(ctx); err != nil {
		return err
	}
	return i.s.read(ctx, "check", "SELECT version()", nil, func() {},
		func(r pgx.Rows) error { return r.Scan(&i.Server) })
}

func (i *inspection) partitions(ctx context.Context) error {
	return i.s.read(ctx, "check", i.s.in("SELECT p.partition, p.owner, p.until > clock_timestamp(), p.epoch,"+
		" p.last, p.through,"+
		" coalesce(j.first, 0), coalesce(j.newest, 0), coalesce(j.batches, 0) FROM {schema}.partitions p LEFT JOIN"+
		" (SELECT partition, min(seq) AS first, max(seq) AS newest, count(*) AS batches FROM {schema}.journal"+
		" GROUP BY partition) j ON j.partition = p.partition ORDER BY p.partition"), nil,
		func() { i.Partitions, i.Batches = nil, 0 },
		func(r pgx.Rows) error {
			var p journal.PartitionState
			var newest, batches uint64
			err := r.Scan(&p.Partition, &p.Owner, &p.Alive, &p.Epoch, &p.Last, &p.Through, &p.First, &newest, &batches)
			p.Owner = original(p.Owner)
			if i.keeps != nil && !slices.Contains(i.keeps, int32(p.Partition)) {
				return err
			}
			switch {
			case p.Through > p.Last:
				i.problem("the view of partition %d is said to contain batch %d, and the last one is %d", p.Partition,
					p.Through, p.Last)
			case newest > p.Last || p.Last > p.Through && (newest < p.Last || p.First > p.Through+1):
				i.problem("partition %d has the batches %d to %d, and needs those from %d to"+
					" %d", p.Partition, p.First, newest,
					p.Through+1, p.Last)
			case batches > 0 && newest-p.First+1 != batches:
				i.problem("%d batches of partition %d are missing between batch %d and batch"+
					" %d", newest-p.First+1-batches,
					p.Partition, p.First, newest)
			}
			i.Batches += int64(batches)
			i.Partitions = append(i.Partitions, p)
			return err
		})
}

func (i *inspection) batches(ctx context.Context) error {
	for _, p := range i.Partitions {
		for after, more := uint64(0), true; more; {
			more = false
			err := i.s.read(ctx, "check", i.s.in("SELECT seq, sum, entries FROM {schema}.journal WHERE partition ="+
				" $1 AND seq > $2"+
				" ORDER BY seq LIMIT $3"), []any{p.Partition, int64(after), tailRows}, func() {},
				func(r pgx.Rows) error {
					more = true
					var want int32
					var b []byte
					if err := r.Scan(&after, &want, &b); err != nil {
						return err
					}
					err := check(b, want)
					var entries []core.Entry
					if err == nil {
						entries, err = core.ReadEntries(b)
					}
					if err != nil {
						i.problem("batch %d of partition %d: %v", after, p.Partition, err)
					}
					i.Entries += int64(len(entries))
					return nil
				})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// histories finds pieces to which no row belongs. EachRun checks the content of a piece, since it reads all of them.
func (i *inspection) histories(ctx context.Context) error {
	err := i.s.read(ctx, "check", i.s.in("SELECT h.run, h.seq, coalesce(r.applied, -1) FROM {schema}.history h"+
		" LEFT JOIN {schema}.runs_data r ON r.id = h.run WHERE r.id IS NULL OR h.seq > r.applied LIMIT $1"),
		[]any{mostProblems}, func() {},
		func(r pgx.Rows) error {
			var run core.RunID
			var seq, applied int64
			err := r.Scan((*[16]byte)(&run), &seq, &applied)
			if applied < 0 {
				i.problem("run %s has history but no row", run)
			} else {
				i.problem("run %s has history of batch %d, but its row ends at batch %d", run, seq, applied)
			}
			return err
		})
	if err != nil {
		return err
	}
	return i.s.eachRun(ctx, i.keeps, func(r journal.Stored) error {
		if r.Broken != nil {
			i.problem("%v", r.Broken)
		}
		i.Entries += int64(len(r.History.Entries))
		return nil
	})
}

func (i *inspection) rows(ctx context.Context) error {
	err := i.s.read(ctx, "check", i.s.in("SELECT (SELECT count(*) FROM {schema}.runs_data"+keptText+"),"+
		" (SELECT count(*) FROM {schema}.runs_data"+keptText+" AND phase < $2),"+
		" (SELECT count(*) FROM {schema}.step_rows), (SELECT count(*) FROM {schema}.attempts_data),"+
		" (SELECT count(*) FROM {schema}.history) + (SELECT count(*) FROM {schema}.runs_data WHERE piece IS NOT NULL),"+
		" (SELECT count(*) FROM {schema}.definitions)"), []any{i.keeps, int16(core.RunSucceeded)}, func() {},
		func(r pgx.Rows) error {
			return r.Scan(&i.Runs, &i.Open, &i.Steps, &i.Attempts, &i.Pieces, &i.Definitions)
		})
	if err != nil {
		return err
	}
	for _, wrong := range []struct{ from, text string }{
		{"steps_data s WHERE NOT EXISTS (SELECT 1 FROM {schema}.runs_data r WHERE r.id = s.run)", "steps of no run"},
		{"attempts_data a WHERE NOT EXISTS (SELECT 1 FROM {schema}.runs_data r WHERE r.id = a.run)", "attempts of" +
			" no run"},
		{
			"runs_data r JOIN {schema}.partitions p ON p.partition = r.partition AND r.applied > p.last",
			"runs that are ahead of the last batch of their partition",
		},
	} {
		err := i.s.read(ctx, "check", i.s.in("SELECT count(*) FROM {schema}."+wrong.from), nil, func() {},
			func(r pgx.Rows) error {
				n := int64(0)
				err := r.Scan(&n)
				if n > 0 {
					i.problem("%s: %d", wrong.text, n)
				}
				return err
			})
		if err != nil {
			return err
		}
	}
	return i.s.read(ctx, "check", i.s.in("SELECT definition, count(*) FROM {schema}.runs_data r"+keptText+" AND"+
		" definition IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {schema}.definitions d WHERE d.id = r.definition)"+
		" GROUP BY definition"), []any{i.keeps}, func() { clear(i.undefined) },
		func(r pgx.Rows) error {
			var id core.DefinitionID
			n := 0
			err := r.Scan((*[16]byte)(&id), &n)
			i.undefined[id] = n
			return err
		})
}

// keptText selects runs of some partitions; NULL: of all.
const keptText = " WHERE ($1::int[] IS NULL OR partition = ANY ($1::int[]))"

// messages decodes every message that was not taken.
func (i *inspection) messages(ctx context.Context) error {
	return i.s.read(ctx, "check", i.s.in("SELECT m.target, m.sender, m.seq, m.sum, m.message FROM {schema}.inbox m"+
		" WHERE $1::int[] IS NULL OR m.sender = ANY ($1::int[])"), []any{i.keeps}, func() { i.Messages = 0 },
		func(r pgx.Rows) error {
			var to, from int
			var seq int64
			var want int32
			var b []byte
			if err := r.Scan(&to, &from, &seq, &want, &b); err != nil {
				return err
			}
			if to >= 0 && to < len(i.taken) && uint64(seq) <= i.taken[to][from] {
				return nil
			}
			i.Messages++
			if min(from, to) < 0 || max(from, to) >= i.s.count {
				i.problem("message %d is from partition %d to partition %d of %d", seq, from, to, i.s.count)
			}
			err := check(b, want)
			if err == nil {
				_, err = core.ReadMessage(b)
			}
			if err != nil {
				i.problem("message %d of partition %d to partition %d: %v", seq, from, to, err)
			}
			return nil
		})
}

// eachRun is how many runs EachRun reads at once.
const eachRun = 256

const eachText = "SELECT " + runColumns + " FROM {schema}.runs_data" + keptText +
	" AND (id > $2 OR ($3 AND id = $2)) ORDER BY id LIMIT $4"

// eachRun calls fn with the runs of some partitions, the oldest first. The runs of a page are read in one transaction
// that sees one snapshot.
func (s *storage) eachRun(ctx context.Context, keeps []int32, fn func(journal.Stored) error) error {
	var after core.RunID
	for first := true; ; first = false {
		var page []journal.Stored
		err := s.again(ctx, func(ctx context.Context) (err error) {
			page, err = s.page(ctx, keeps, after, first)
			return err
		})
		if err != nil {
			return s.wrap("each run", err)
		}
		for _, r := range page {
			if err := fn(r); err != nil {
				return err
			}
			after = r.Row.ID
		}
		if len(page) < eachRun {
			return nil
		}
	}
}

// page reads runs after one, or from one on.
func (s *storage) page(
	ctx context.Context, keeps []int32, after core.RunID, with bool,
) (page []journal.Stored, err error) {
	if err := s.usable(false); err != nil {
		return nil, err
	}
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it only read
	each := func(text string, args []any, row func(pgx.Rows) error) error {
		s.statements.Add(1)
		rows, err := tx.Query(ctx, s.in(text), append([]any{s.mode()}, args...)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := row(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
	var ids uuids
	at := map[core.RunID]int{}
	err = each(eachText, []any{keeps, [16]byte(after), with, eachRun}, func(r pgx.Rows) error {
		row, err := scanRun(r)
		at[row.ID] = len(page)
		page, ids = append(page, journal.Stored{Row: row}), append(ids, row.ID)
		return err
	})
	piece := func(r pgx.Rows) error { return addPiece(r, page, at) }
	if err == nil {
		err = each("SELECT id, NULL::bigint, NULL::int, piece FROM {schema}.runs_data WHERE id = ANY ($1)"+
			" AND piece IS NOT NULL", []any{ids}, piece)
	}
	if err == nil {
		err = each("SELECT run, seq, sum, entries FROM {schema}.history WHERE run = ANY ($1) ORDER BY run,"+
			" seq", []any{ids}, piece)
	}
	if err == nil {
		err = each(stepsText, []any{ids}, func(r pgx.Rows) error {
			step, err := scanStep(r)
			to := &page[at[step.Run]]
			to.Steps = append(to.Steps, step)
			return err
		})
	}
	if err == nil {
		err = each(attemptsText, []any{ids}, func(r pgx.Rows) error {
			attempt, err := scanAttempt(r)
			to := &page[at[attempt.Run]]
			to.Attempts = append(to.Attempts, attempt)
			return err
		})
	}
	for n := range page {
		if r := &page[n]; r.Broken == nil && len(r.History.Entries) == 0 {
			r.Broken = fmt.Errorf("run %s has a row and no history", r.Row.ID)
		}
		page[n].History.Applied = page[n].Row.Applied
	}
	return page, err
}

// addPiece adds a piece of history to its run. One without a number is folded in the run's row.
func addPiece(rows pgx.Rows, page []journal.Stored, at map[core.RunID]int) error {
	var run core.RunID
	var seq *uint64
	var want *int32
	var src []byte
	if err := rows.Scan((*[16]byte)(&run), &seq, &want, &src); err != nil {
		return err
	}
	to := &page[at[run]]
	if to.Broken != nil {
		return nil //nolint:nilerr // an earlier piece is broken, which the run says; the other runs are still read
	}
	if seq == nil || want == nil {
		to.Broken = readFirst(&to.History, run, src)
	} else {
		to.Broken = readPiece(&to.History, run, *seq, src, *want)
	}
	return nil
}
