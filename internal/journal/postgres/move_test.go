package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/journaltest"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// mover is a journal over two stores, and what partition 0 has to hold wherever it is.
type mover struct {
	*testing.T
	dsn  string
	j    *stores
	runs int
	sent []string // the messages to partition 1, in order
}

func newMover(t *testing.T, first, second string) *mover {
	t.Helper()
	dsn, _ := added(t, first, second)
	m := &mover{T: t, dsn: dsn}
	m.reopen()
	return m
}

// reopen begins the next process: the last one gives no sign of life any more.
func (m *mover) reopen() {
	m.Helper()
	m.j = opened(m, m.dsn)
	for _, at := range m.j.layout.Load().all {
		if err := at.begin(m.Context()); err != nil {
			m.Fatal(err)
		}
		err := at.change(m.Context(), "expire", "UPDATE {schema}.partitions SET until = clock_timestamp() WHERE owner"+
			" NOT LIKE '"+awayPrefix+"%'", nil)
		if err != nil {
			m.Fatal(err)
		}
	}
}

// run returns the id of a run of partition 0.
func (m *mover) run(n int) core.RunID { return journaltest.RunID(n) }

// work works as an owner of partition 0 for some batches. Each starts a run, changes the one before, and sends a
// message.
func (m *mover) work(batches int) {
	m.Helper()
	l, err := m.j.Acquire(m.Context(), 0, "owner")
	if err != nil {
		m.Fatal(err)
	}
	for range batches {
		m.runs++
		l.Last++
		text := fmt.Sprint("m", m.runs)
		b := &journal.Batch{Epoch: l.Epoch, Seq: l.Last, View: &journal.View{Through: l.Last}}
		b.Out = []journal.Message{{
			To: 1, Seq: journal.MessageSeq(b.Seq, 0),
			Encoded: core.AppendMessage(nil, &core.Message{Name: text, Content: core.ChildAsk{}}),
		}}
		for _, n := range []int{m.runs, m.runs - 1} {
			e := core.Entry{Run: m.run(n), At: 1, Records: []core.Record{core.SignalKept{Name: text, ID: "id"}}}
			b.Entries = append(b.Entries, e)
			b.View.Runs = append(b.View.Runs, journal.RunRow{
				ID: m.run(n), Workflow: "w", Phase: core.RunWaiting, CreatedAt: 1, Wake: core.Time(m.runs),
				Applied: b.Seq,
			})
			if n == m.runs {
				b.View.New = append(b.View.New, m.run(n))
			}
			b.View.Steps = append(b.View.Steps, journal.StepRow{Run: m.run(n), Name: text})
			b.View.Attempts = append(b.View.Attempts, journal.AttemptRow{Run: m.run(n), Attempt: 1, Worker: text})
			b.View.History = append(b.View.History, journal.HistoryRow{
				Run: m.run(n), Seq: b.Seq, Entries: core.AppendEntry(nil, &e),
			})
		}
		b.Feeds = []journal.Feed{{Name: "feed", Seq: b.Seq - 1}}
		if err := m.j.Append(m.Context(), b); err != nil {
			m.Fatal(err)
		}
		m.sent = append(m.sent, text)
	}
	if err := m.j.Release(m.Context(), 0, l.Epoch); err != nil {
		m.Fatal(err)
	}
}

// whole checks that nothing of the partition is missing, and nothing there twice.
func (m *mover) whole(what string) {
	m.Helper()
	page, err := m.j.List(m.Context(), journal.Query{Limit: 1000})
	if err != nil {
		m.Fatal(what, err)
	}
	if len(page.Runs) != m.runs+1 {
		m.Errorf("%s: %d runs are listed, and %d were started", what, len(page.Runs), m.runs+1)
	}
	for i, r := range page.Runs {
		n := m.runs - i
		want := 2 // pieces of history
		if n == 0 || n == m.runs {
			want = 1
		}
		h, err := m.j.History(m.Context(), r.ID)
		if r.ID != m.run(n) || err != nil || len(h.Entries) != want || h.Applied != r.Applied {
			m.Fatalf("%s: run %d is %s with %d entries: %v", what, n, r.ID, len(h.Entries), err)
		}
	}
	due, err := m.j.Due(m.Context(), 0, 0, 1<<60, 1000)
	if err != nil || len(due) != m.runs+1 {
		m.Errorf("%s: %d runs are due: %v", what, len(due), err)
	}
	in, err := m.j.Inbox(m.Context(), 1, nil, 1000)
	var sent []string
	for _, msg := range in {
		read, readErr := core.ReadMessage(msg.Encoded)
		err = errors.Join(err, readErr)
		sent = append(sent, read.Name)
	}
	if err != nil || strings.Join(sent, " ") != strings.Join(m.sent, " ") {
		m.Errorf("%s: the messages %v were sent, and %v are there: %v", what, m.sent, sent, err)
	}
	i, err := m.j.Inspect(m.Context())
	if err != nil || len(i.Problems) > 0 || int(i.Runs) != m.runs+1 {
		m.Errorf("%s: %+v, %v", what, i, err)
	}
	each := 0
	err = m.j.EachRun(m.Context(), func(r journal.Stored) error {
		each++
		if r.Broken != nil || len(r.Steps) != 1 || len(r.Attempts) != 1 {
			m.Errorf("%s: %+v", what, r)
		}
		return nil
	})
	if err != nil || each != m.runs+1 {
		m.Errorf("%s: %d runs: %v", what, each, err)
	}
}

// place says where partition 0 should be.
func (m *mover) place(store string) {
	m.Helper()
	if err := m.j.Place(m.Context(), 0, store); err != nil {
		m.Fatal(err)
	}
}

// moved moves the partition as a node does, whatever has happened before, and removes what is left.
func (m *mover) moved(to string) {
	m.Helper()
	l := m.j.layout.Load()
	if from := l.name(l.places[0]); from != to {
		err := m.j.Copy(m.Context(), 0)
		if err == nil {
			err = m.j.Switch(m.Context(), 0, "mover")
		}
		if err != nil {
			m.Fatal(err)
		}
		m.whole("before the old rows are removed")
		m.clean(from)
	}
	if l = m.j.layout.Load(); l.name(l.places[0]) != to || l.targets[0] != l.places[0] {
		m.Fatalf("the partition is in the store %s, not %s", l.name(l.places[0]), to)
	}
}

// clean removes the rows of partition 0 from a store.
func (m *mover) clean(store string) {
	m.Helper()
	for more := true; more; {
		var err error
		if more, err = m.j.Clean(m.Context(), 0, store); err != nil {
			m.Fatal(err)
		}
	}
}

// rows counts what a store has of partition 0, wherever that is kept.
func (m *mover) rows(store string) (n int) {
	m.Helper()
	l := m.j.layout.Load()
	i, _ := l.index(strings.TrimPrefix(store, nameOfFirst))
	at := l.all[i]
	err := at.pool.QueryRow(m.Context(), at.in("SELECT (SELECT count(*) FROM {schema}.runs_data) +"+
		" (SELECT count(*) FROM {schema}.steps_data) + (SELECT count(*) FROM {schema}.attempts_data) +"+
		" (SELECT count(*) FROM {schema}.history) + (SELECT count(*) FROM {schema}.journal) +"+
		" (SELECT count(*) FROM {schema}.feeds) + (SELECT count(*) FROM {schema}.inbox)")).Scan(&n)
	if err != nil {
		m.Fatal(err)
	}
	return n
}

// TestMove moves a partition to another store and back, while it works in between, with the process dying after each
// step. It is whole in one store or the other all the time, and the next process brings the move to its end.
func TestMove(t *testing.T) {
	nightly.Only(t, "each step of a move dies, and waits for a lease")
	first, second := pgtest.Start(t), pgtest.StartServer(t).DSN()
	steps := []struct {
		name string
		do   func(m *mover, ctx context.Context, from, to *storage) error
	}{
		{"it was told", func(*mover, context.Context, *storage, *storage) error { return nil }},
		{"a pass", func(m *mover, ctx context.Context, from, to *storage) error {
			_, err := pass(ctx, 0, from, to, false)
			return err
		}},
		{"two passes", func(m *mover, ctx context.Context, from, to *storage) error {
			_, err := pass(ctx, 0, from, to, false)
			m.work(3)
			_, again := pass(ctx, 0, from, to, false)
			return errors.Join(err, again)
		}},
		{"the last pass", func(m *mover, ctx context.Context, from, to *storage) error {
			_, err := from.Acquire(ctx, 0, "mover")
			if err == nil {
				_, err = pass(ctx, 0, from, to, true)
			}
			return err
		}},
		{"the source has leased it away", func(m *mover, ctx context.Context, from, to *storage) error {
			l, err := from.Acquire(ctx, 0, "mover")
			if err == nil {
				err = m.j.handOver(ctx, 0, from, to, l)
			}
			return err
		}},
		{"the target is open", func(m *mover, ctx context.Context, from, to *storage) error {
			l, err := from.Acquire(ctx, 0, "mover")
			if err == nil {
				err = m.j.handOver(ctx, 0, from, to, l)
			}
			if err == nil {
				err = to.open(ctx, 0, l.Epoch+1)
			}
			return err
		}},
		{"all of it", func(m *mover, ctx context.Context, _, _ *storage) error {
			return errors.Join(m.j.Copy(ctx, 0), m.j.Switch(ctx, 0, "mover"))
		}},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			m := newMover(t, first, second)
			m.work(5)
			m.whole("at first")
			for _, to := range []string{"b", nameOfFirst, "b"} {
				m.place(to)
				from, target, err := m.j.route(t.Context(), 0)
				if err != nil {
					t.Fatal(err)
				}
				if err := step.do(m, t.Context(), from, target); err != nil {
					t.Fatal(err)
				}
				m.whole("after the crash")
				m.reopen()
				m.work(3)
				m.whole("when it goes on")
				m.moved(to)
				m.work(2)
				m.whole("moved")
			}
			m.clean(nameOfFirst)
			if n := m.rows(nameOfFirst); n != 0 {
				t.Errorf("%d rows are left", n)
			}
			if n := m.rows("b"); n == 0 {
				t.Error("nothing is where the partition is")
			}
		})
	}
}

// TestMoveRefused checks that movers that stood still, each at the worst moment, are refused when they go on, and that
// nothing is lost.
func TestMoveRefused(t *testing.T) {
	m := newMover(t, pgtest.Start(t), pgtest.StartServer(t).DSN())
	ctx := t.Context()
	m.work(3)
	m.place("b")
	from, to, err := m.j.route(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}

	// While the mover stands still its lease ends, and the partition works with another owner.
	l, err := from.Acquire(ctx, 0, "mover")
	if err == nil {
		_, err = pass(ctx, 0, from, to, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.reopen()
	m.work(2)
	if err := from.leaseAway(ctx, 0, l.Epoch, to); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("the source was leased away: %v", err)
	}
	m.whole("after a mover was late")

	// The move is called off between the last pass and the statement that decides. What was brought is kept, as long as
	// that may follow.
	if l, err = from.Acquire(ctx, 0, "mover"); err == nil {
		_, err = pass(ctx, 0, from, to, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.place(nameOfFirst)
	m.clean("b")
	if err := from.leaseAway(ctx, 0, l.Epoch, to); err != nil {
		t.Fatal(err)
	}
	m.clean("b")
	m.work(2)
	m.whole("called off too late")

	// A mover goes on after another one has done everything.
	if _, err := pass(ctx, 0, from, to, false); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("a copy over a partition that works: %v", err)
	}
	if _, err := from.Acquire(ctx, 0, "by an old map"); !errors.Is(err, journal.ErrHeld) {
		t.Errorf("acquired where it was: %v", err)
	}
	for range 2 { // the rows that are left, and then what is not left
		m.clean(nameOfFirst)
		m.clean("b")
		m.whole("cleaned")
	}
	m.work(2)
	m.whole("at the end")
}

// TestStoreRemoved removes a store when it keeps nothing, and no sooner: not while a mover may still bring something.
// One that was removed can be added again.
func TestStoreRemoved(t *testing.T) {
	proxy := pgtest.NewProxy(t, pgtest.StartServer(t).DSN())
	m := newMover(t, pgtest.Start(t), proxy.DSN())
	m.dsn = with(t, m.dsn, "statement_timeout", "4s")
	m.reopen()
	ctx := t.Context()
	gone := false
	refused := func(want string) {
		t.Helper()
		err := m.j.RemoveStore(ctx, "b", gone)
		if why := new(cluster.RefusedError); !errors.As(err, &why) || !strings.Contains(why.Text, want) {
			t.Errorf("removed: %v, not %q", err, want)
		}
	}
	m.work(3)
	m.place("b")
	refused("keeps partitions, or they are being moved there")
	from, to, err := m.j.route(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := from.Acquire(ctx, 0, "mover")
	if err == nil {
		_, err = pass(ctx, 0, from, to, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.place(nameOfFirst)
	refused("partition 0 is being moved to the store b, or from it")
	gone = true // which is not true, so the mover can still bring the partition there
	refused("partition 0 is being moved to the store b, or from it")
	gone = false
	if err := from.leaseAway(ctx, 0, l.Epoch, to); err != nil {
		t.Fatal(err)
	}
	refused("partition 0 is being moved to the store b, or from it")
	gone = true
	proxy.Hold() // so that only the source can say it
	refused("partition 0 was given to the store b before its move was called off")
	proxy.Release()
	gone = false
	m.work(2)
	m.whole("called off too late")
	refused("keeps partitions")
	m.place(nameOfFirst)
	m.moved(nameOfFirst)

	m.place("b")
	if from, to, err = m.j.route(ctx, 0); err != nil {
		t.Fatal(err)
	}
	m.place(nameOfFirst)
	address := m.j.layout.Load().all[1].address
	proxy.Hold()
	refused("--gone")
	proxy.Release()
	if err := m.j.RemoveStore(ctx, "b", false); err != nil || len(m.j.layout.Load().all) != 1 {
		t.Fatalf("removed: %v, %+v", err, m.j.layout.Load())
	}
	if _, err := pass(ctx, 0, from, to, false); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("a mover that began before the store was removed: %v", err)
	}
	if err := m.j.Place(ctx, 0, "b"); err == nil || !strings.Contains(err.Error(), "the store b was removed") {
		t.Errorf("placed in a store that was removed: %v", err)
	}
	refused(`there is no store "b"`)
	m.reopen()
	m.work(2)
	m.whole("without the store")

	if err := m.j.AddStore(ctx, "b", address); err != nil {
		t.Fatal(err)
	}
	m.place("b")
	m.moved("b")
	m.work(2)
	m.whole("added again")
	m.place(nameOfFirst)
	m.moved(nameOfFirst)
	m.place("b")
	if from, to, err = m.j.route(ctx, 0); err == nil {
		l, err = from.Acquire(ctx, 0, "mover")
	}
	if err == nil {
		_, err = pass(ctx, 0, from, to, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.place(nameOfFirst)
	proxy.Hold()
	if err := m.j.RemoveStore(ctx, "b", true); err != nil {
		t.Error(err)
	}
	if err := m.j.give(ctx, 0, from, to, l.Epoch); err == nil || !strings.Contains(err.Error(), "b was removed") {
		t.Errorf("a mover that was about to end: %v", err)
	}
	proxy.Release()
	if err := from.Release(ctx, 0, l.Epoch); err != nil {
		t.Error(err)
	}
	m.work(2)
	m.whole("when the store is lost")
}

// TestMovedColumns finds a table or column of a partition that a move would leave behind.
func TestMovedColumns(t *testing.T) {
	dsn := own(t, pgtest.Start(t))
	j := opened(t, dsn)
	var want []string
	for _, m := range moved {
		for column := range strings.SplitSeq(m.columns, ", ") {
			want = append(want, m.table+"."+strings.Trim(column, `"`))
		}
	}
	rows, err := j.pool.Query(t.Context(), "SELECT c.table_name || '.' || c.column_name"+
		" FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)"+
		" WHERE table_schema = $1 AND table_type = 'BASE TABLE' AND table_name NOT IN ('meta', 'partitions',"+
		" 'definitions', 'outbox', 'nodes', 'pins', 'stores', 'placements', '"+versions+"')", j.schema)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the tables have %v, and %v are moved", got, want)
	}
}
