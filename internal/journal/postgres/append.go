package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Append implements journal.Journal. A context that is done before the append begins stops it; once begun it is carried
// through, since half an answer would leave the caller in doubt.
func (s *storage) Append(ctx context.Context, b *journal.Batch) error {
	if err := s.ready(ctx, b.Partition); err != nil {
		return err
	}
	mark := s.nextMark()
	st := s.appending(b, mark)
	doubt := false // an earlier try may have been carried out
	err := s.again(context.WithoutCancel(ctx), func(ctx context.Context) error {
		written, err := s.write(ctx, st)
		if err == nil && !written {
			err = s.whyNot(ctx, b, mark)
		}
		switch {
		case err == nil:
		case s.classify(err) == unknown:
			doubt = true
		case doubt && !errors.Is(err, journal.ErrFenced):
			return &doubtError{err}
		}
		return err
	})
	if err != nil {
		return s.failed(b, err, doubt)
	}
	s.fence.notes.Note(b.Partition, journal.Stand{Epoch: b.Epoch, Last: b.Seq})
	if b.Seq%trimEvery == 0 {
		s.trim(context.WithoutCancel(ctx), b.Partition)
	}
	return nil
}

// write runs the statement of a batch and reports whether it has written the batch.
func (s *storage) write(ctx context.Context, st *statement) (written bool, err error) {
	err = s.query(ctx, st.text, st.args, func(r pgx.Rows) error { written = true; return nil })
	return written, err
}

// whyNot returns why a batch was not written. If an earlier try has written it after all, it returns nil: then the row
// of the partition has the mark of this append. Nobody but the owner writes it, and his appends come one after the
// other.
func (s *storage) whyNot(ctx context.Context, b *journal.Batch, mark int64) error {
	o, err := s.confirmedOwner(ctx, b.Partition)
	switch {
	case err != nil:
		return err
	case o.epoch == b.Epoch && o.last == b.Seq && o.mark == mark:
		return nil
	}
	if err := s.fence.behind(ctx); err != nil {
		return err
	}
	if o.epoch != b.Epoch {
		return fenced(b.Partition, b.Epoch)
	}
	return &orderError{fmt.Sprintf("batch %d of partition %d does not follow batch %d", b.Seq, b.Partition, o.last)}
}

// orderError refuses a batch that is not the next one.
type orderError struct{ text string }

func (e *orderError) Error() string { return e.text }

// doubtError is an error after an earlier try that may have been carried out. Another try may tell.
type doubtError struct{ err error }

func (e *doubtError) Error() string { return e.err.Error() }

// failed returns the error of an append. If it is unknown whether the batch was written, the cause is only a part of
// the text: its kind would claim that nothing was.
func (s *storage) failed(b *journal.Batch, err error, doubt bool) error {
	var order *orderError
	switch {
	case errors.Is(err, journal.ErrFenced):
		return err
	case errors.As(err, &order):
		return fmt.Errorf("journal: append %s: %w", s.name, err)
	case doubt:
		return fmt.Errorf("journal: append %s: the answer to batch %d of partition %d was lost, and the database"+
			" does not say "+
			"whether it was written: %v", s.name, b.Seq, b.Partition, err)
	}
	return s.wrap("append", err)
}

// statement is a statement that writes a batch.
type statement struct {
	text string
	args []any
}

// A part of the statement writes one kind of rows. All parts depend on the row of the partition: own has a row only
// where the batch is its owner's next one.
type part struct {
	name string
	text string // a lone $ means the next parameter
}

const ownText = "WITH own AS (UPDATE {schema}.partitions SET last = $3, through = greatest(through, least($4, $3))," +
	" mark = $5," +
	" until = clock_timestamp() + term * interval '1 microsecond'" +
	" WHERE partition = $1 AND epoch = $2 AND last = $3 - 1 RETURNING partition)," +
	" batch AS (INSERT INTO {schema}.journal (partition, seq, sum, entries)" +
	" SELECT partition, $3, $6, $7 FROM own)"

// The columns of runs_data that every row has, and where they are in the rows of a view.
const (
	runNames = "created_at, ended_at, deadline, wake, applied, partition, phase, id, definition, parent, workflow," +
		" workflow_id, key, message, labels, told"
	runValues = "u.a, u.b, u.c, u.d, u.e, u.f, u.g, u.h, nullif(u.i, {zero}), nullif(u.j, {zero}), u.k," +
		" nullif(u.l, ''), nullif(u.m, ''), nullif(u.n, ''), nullif(u.o, ''), u.p"
	runArrays = "$::bigint[], $::bigint[], $::bigint[], $::bigint[], $::bigint[], $::int[], $::smallint[]," +
		" $::uuid[], $::uuid[], $::uuid[], $::text[], $::text[], $::text[], $::text[], $::text[], $::bytea[]"
)

// replaceRun makes the row of a run replace the earlier one, except for what was folded into that. The phase comes
// after it.
const replaceRun = " ON CONFLICT (id) DO UPDATE SET created_at = excluded.created_at, ended_at = excluded.ended_at," +
	" deadline = excluded.deadline, wake = excluded.wake, applied = excluded.applied, partition = excluded.partition," +
	" definition = excluded.definition, parent = excluded.parent, workflow = excluded.workflow," +
	" workflow_id = excluded.workflow_id, key = excluded.key, message = excluded.message, labels = excluded.labels," +
	" told = excluded.told,"

// parts are in the order in which [storage.appending] adds their rows.
var parts = []part{
	// A statement has one of these two: some databases refuse to change a table in two parts.
	{"runs", "INSERT INTO {schema}.runs_data (" + runNames + ") SELECT " + runValues + " FROM own," +
		" unnest(" + runArrays + ") AS u (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)" + replaceRun +
		" phase = excluded.phase"},
	// A new run that is there already divides by zero: nothing is saved. Other databases that speak PostgreSQL's
	// protocol have no xmax, which would show which rows were new.
	{"folded", "INSERT INTO {schema}.runs_data (" + runNames + ", piece, steps)" +
		" SELECT " + runValues + ", u.q, nullif(u.r, '') FROM own," +
		" unnest(" + runArrays + ", $::bytea[], $::text[])" +
		" AS u (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)" + replaceRun +
		" phase = excluded.phase / (CASE WHEN coalesce(excluded.steps, '') = '' AND excluded.piece IS NULL" +
		" THEN 1 ELSE 0 END)"},
	{"steps", "INSERT INTO {schema}.steps_data (scheduled_at, ended_at, next_at, deadline, step, attempt, kind," +
		" phase, reason," +
		" run, name, message) SELECT u.a, u.b, u.c, u.d, u.e, u.f, u.g, u.h, u.i, u.j, u.k, nullif(u.l, '') FROM own," +
		" unnest($::bigint[], $::bigint[], $::bigint[], $::bigint[], $::int[], $::int[], $::smallint[]," +
		" $::smallint[]," +
		" $::smallint[], $::uuid[], $::text[], $::text[]) AS u (a, b, c, d, e, f, g, h, i, j, k, l)" +
		" ON CONFLICT (run, step) DO UPDATE SET scheduled_at = excluded.scheduled_at, ended_at = excluded.ended_at," +
		" next_at = excluded.next_at, deadline = excluded.deadline, attempt = excluded.attempt, kind = excluded.kind," +
		" phase = excluded.phase, reason = excluded.reason, name = excluded.name, message = excluded.message"},
	{"attempts", "INSERT INTO {schema}.attempts_data (ready_at, started_at, ended_at, step, attempt, \"limit\"," +
		" run, worker," +
		" outcome, message) SELECT u.a, u.b, u.c, u.d, u.e, u.f, u.g, nullif(u.h, ''), nullif(u.i, ''), nullif(u.j," +
		" '')" +
		" FROM own, unnest($::bigint[], $::bigint[], $::bigint[], $::int[], $::int[], $::smallint[], $::uuid[]," +
		" $::text[]," +
		" $::text[], $::text[]) AS u (a, b, c, d, e, f, g, h, i, j)" +
		" ON CONFLICT (run, step, attempt) DO UPDATE SET ready_at = excluded.ready_at, started_at =" +
		" excluded.started_at," +
		" ended_at = excluded.ended_at, \"limit\" = excluded.\"limit\", worker = excluded.worker, outcome =" +
		" excluded.outcome," +
		" message = excluded.message"},
	{"pieces", "INSERT INTO {schema}.history (seq, sum, run, entries) SELECT u.a, u.b, u.c, u.d FROM own," +
		" unnest($::bigint[], $::int[], $::uuid[], $::bytea[]) AS u (a, b, c, d)"},
	{"definitions", "INSERT INTO {schema}.definitions (id, kind, name, source) SELECT u.a, u.b, u.c, u.d FROM own," +
		" unnest($::uuid[], $::text[], $::text[], $::bytea[]) AS u (a, b, c, d) ON CONFLICT DO NOTHING"},
	{"outgoing", "INSERT INTO {schema}.inbox (target, sender, seq, sum, message) SELECT u.a, own.partition, u.b," +
		" u.c, u.d" +
		" FROM own, unnest($::int[], $::bigint[], $::int[], $::bytea[]) AS u (a, b, c, d) ON CONFLICT DO NOTHING"},
	{"taken", "INSERT INTO {schema}.taken AS t (partition, sender, through) SELECT own.partition, u.a, u.b FROM own," +
		" unnest($::int[], $::bigint[]) AS u (a, b)" +
		" ON CONFLICT (partition, sender) DO UPDATE SET through = greatest(t.through, excluded.through)"},
	{"feeds", "INSERT INTO {schema}.feeds (partition, name, seq, lapsed, removed) SELECT own.partition, u.a, u.b," +
		" u.c, u.d" +
		" FROM own, unnest($::text[], $::bigint[], $::boolean[], $::boolean[]) AS u (a, b, c, d)" +
		" ON CONFLICT (partition, name) DO UPDATE SET seq = excluded.seq, lapsed = excluded.lapsed, removed =" +
		" excluded.removed"},
	{"documents", "INSERT INTO {schema}.documents (key, value) SELECT u.a, u.b FROM own," +
		" unnest($::text[], $::bytea[]) AS u (a, b) ON CONFLICT (key) DO UPDATE SET value = excluded.value"},
	{"gone", "DELETE FROM {schema}.documents t USING own, unnest($::text[]) AS u (a) WHERE t.key = u.a"},
}

// appending returns the statement of a batch.
func (s *storage) appending(b *journal.Batch, mark int64) *statement {
	entries := b.Encoded
	for i := range b.Entries {
		entries = core.AppendEntry(entries, &b.Entries[i])
	}
	if entries == nil {
		entries = []byte{}
	}
	st := &statement{args: make([]any, 0, 64)}
	through := int64(0)
	if b.View != nil {
		through = int64(b.View.Through)
	}
	st.add(b.Partition, int64(b.Epoch), int64(b.Seq), through, mark, sum(entries), entries)
	v, fresh := fold(b.View)
	if v == nil {
		v = new(journal.View)
	}
	kept, gone := keptAndGone(b.Documents)
	which := 0
	for i, added := range []bool{
		len(fresh) == 0 && addRuns(v, st), len(fresh) > 0 && addFolded(v, fresh, st), addSteps(v, st),
		addAttempts(v, st), addHistory(v, st),
		addDefinitions(b, st), addOut(b, st), addTaken(b, st), addFeeds(b, st),
		addDocuments(kept, st), addGone(gone, st),
	} {
		if added {
			which |= 1 << i
		}
	}
	st.text = s.textOf(which)
	return st
}

func (st *statement) add(args ...any) { st.args = append(st.args, args...) }

// textOf returns the text of a statement with some of the parts.
func (s *storage) textOf(which int) string {
	if text, ok := s.texts.Load(which); ok {
		return text.(string)
	}
	var text strings.Builder
	text.WriteString(ownText)
	number := fixedArgs
	for i, p := range parts {
		if which&(1<<i) == 0 {
			continue
		}
		text.WriteString(", " + p.name + " AS (")
		pieces := strings.Split(p.text, "$")
		text.WriteString(pieces[0])
		for _, rest := range pieces[1:] {
			number++
			text.WriteString("$" + strconv.Itoa(number) + rest)
		}
		text.WriteString(")")
	}
	text.WriteString(" SELECT 1 FROM own")
	full := strings.ReplaceAll(s.in(text.String()), "{zero}", "'00000000-0000-0000-0000-000000000000'::uuid")
	s.texts.Store(which, full)
	return full
}

// fixedArgs is the number of parameters of ownText.
const fixedArgs = 7

func addDefinitions(b *journal.Batch, st *statement) bool {
	if len(b.Definitions) == 0 {
		return false
	}
	// All partitions use one order, since two of them may add the same definitions at the same time.
	all := slices.Clone(b.Definitions)
	slices.SortFunc(all, func(a, b journal.Definition) int { return slices.Compare(a.ID[:], b.ID[:]) })
	ids, kinds, names, sources := newUUIDs(len(all)), newTexts(len(all)), newTexts(len(all)), newBlobs(len(all))
	for i := range all {
		d := &all[i]
		ids = append(ids, d.ID)
		kinds, names = append(kinds, stored(d.Kind)), append(names, stored(d.Name))
		sources = append(sources, notNil(d.Source))
	}
	st.add(ids, kinds, names, sources)
	return true
}

func addOut(b *journal.Batch, st *statement) bool {
	n := len(b.Out)
	if n == 0 {
		return false
	}
	targets, sums := make([]int32, 0, n), make([]int32, 0, n)
	seqs, messages := make([]int64, 0, n), newBlobs(n)
	for i := range b.Out {
		m := &b.Out[i]
		targets, seqs = append(targets, int32(m.To)), append(seqs, int64(m.Seq))
		sums, messages = append(sums, sum(m.Encoded)), append(messages, notNil(m.Encoded))
	}
	st.add(targets, seqs, sums, messages)
	return true
}

func addTaken(b *journal.Batch, st *statement) bool {
	if len(b.Taken) == 0 {
		return false
	}
	var senders []int32
	var through []int64
	for _, t := range b.Taken {
		senders, through = append(senders, int32(t.From)), append(through, int64(t.Through))
	}
	st.add(senders, through)
	return true
}

func addFeeds(b *journal.Batch, st *statement) bool {
	if len(b.Feeds) == 0 {
		return false
	}
	var names []string
	var seqs []int64
	var lapsed, removed []bool
	for _, f := range b.Feeds {
		names, seqs = append(names, stored(f.Name)), append(seqs, int64(f.Seq))
		lapsed, removed = append(lapsed, f.Lapsed), append(removed, f.Removed)
	}
	st.add(names, seqs, lapsed, removed)
	return true
}

// keptAndGone returns the documents that a batch puts, and the keys of those that it deletes.
func keptAndGone(documents []journal.Document) (kept []journal.Document, gone []string) {
	keys, values := lastDocuments(documents)
	for i, key := range keys {
		if values[i] == nil {
			gone = append(gone, key)
		} else {
			kept = append(kept, journal.Document{Key: key, Value: values[i]})
		}
	}
	return kept, gone
}

func addDocuments(kept []journal.Document, st *statement) bool {
	if len(kept) == 0 {
		return false
	}
	keys, values := newTexts(len(kept)), newBlobs(len(kept))
	for _, d := range kept {
		keys, values = append(keys, d.Key), append(values, d.Value)
	}
	st.add(keys, values)
	return true
}

func addGone(gone []string, st *statement) bool {
	if len(gone) == 0 {
		return false
	}
	st.add(gone)
	return true
}

// trimEvery is after how many batches the journal is trimmed. It is a separate statement, because it need not be in the
// batch's: nobody reads any longer what it deletes.
const trimEvery = 64

var trimTexts = []string{
	"DELETE FROM {schema}.journal WHERE partition = $1 AND seq <= (SELECT least(p.through, (SELECT min(f.seq)" +
		" FROM {schema}.feeds f WHERE f.partition = p.partition AND NOT f.lapsed AND NOT f.removed))" +
		" FROM {schema}.partitions p WHERE p.partition = $1)",
	"DELETE FROM {schema}.inbox i USING {schema}.taken t WHERE i.target = $1 AND t.partition = i.target" +
		" AND t.sender = i.sender AND i.seq <= t.through",
	"DELETE FROM {schema}.feeds WHERE partition = $1 AND removed",
}

// trim deletes what is no longer needed. If it fails, the next one does it.
func (s *storage) trim(ctx context.Context, partition int) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for _, text := range trimTexts {
		if s.query(ctx, s.in(text), []any{partition}, func(pgx.Rows) error { return nil }) != nil {
			return
		}
	}
}
