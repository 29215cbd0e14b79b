package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/journaltest"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// sleeper adds a new run that sleeps to a batch.
func sleeper(n int, b *journal.Batch) {
	run := journaltest.RunID(n)
	e := core.Entry{Run: run, At: 1000, Records: []core.Record{core.SignalKept{Name: "start", ID: "id"}}}
	b.Entries = []core.Entry{e}
	b.View = &journal.View{
		Runs: []journal.RunRow{{
			ID: run, Workflow: "w", Phase: core.RunWaiting, CreatedAt: 1000, Wake: 5000, Applied: b.Seq,
		}},
		Steps: []journal.StepRow{{
			Run: run, Name: "nap", Kind: core.KindSleep, Phase: core.StepSuspended, Attempt: 1, ScheduledAt: 1001,
			NextAt: 5000,
		}},
		History: []journal.HistoryRow{{Run: run, Seq: b.Seq, Entries: core.AppendEntry(nil, &e)}},
		New:     []core.RunID{run},
	}
}

// TestFoldedRows checks that a sleeping run has one row.
func TestFoldedRows(t *testing.T) {
	dsn := own(t, pgtest.Start(t))
	j := opened(t, dsn)
	l := newLine(t, j)
	for n := range 3 {
		b := l.batch("")
		sleeper(n+1, b)
		if err := l.j.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		l.lease.Last++
		h, err := l.j.History(t.Context(), journaltest.RunID(n+1))
		if err != nil || len(h.Entries) != 1 {
			t.Errorf("history of run %d: %+v, %v", n+1, h, err)
		}
	}
	var steps, pieces int
	err := j.pool.QueryRow(t.Context(), j.in("SELECT (SELECT count(*) FROM {schema}.steps_data),"+
		" (SELECT count(*) FROM {schema}.history)")).Scan(&steps, &pieces)
	if err != nil || steps != 0 || pieces != 0 {
		t.Errorf("%d rows of steps, %d of history, %v", steps, pieces, err)
	}

	// The columns that people see.
	rows, err := j.pool.Query(t.Context(), j.in("SELECT name || ' ' || kind || ' ' || phase || ' ' || attempt ||"+
		" ' ' || extract(epoch FROM scheduled_at) || ' ' || coalesce(ended_at::text, '-') || ' ' ||"+
		" extract(epoch FROM next_at) FROM {schema}.steps ORDER BY run"))
	var got []string
	if err == nil {
		got, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	one := "nap sleep suspended 1 0.001001 - 0.005000"
	if want := strings.Repeat(one+"\n", 3); err != nil || strings.Join(got, "\n")+"\n" != want {
		t.Errorf("the view shows %q, %v", got, err)
	}

	again := l.batch("")
	sleeper(1, again)
	if err := l.j.Append(t.Context(), again); err == nil {
		t.Error("a run was new twice")
	}

	execute(t, dsn, j.in("UPDATE {schema}.runs_data SET piece = set_byte(piece, 6, 0)"))
	_, err = j.History(t.Context(), journaltest.RunID(1))
	if !errors.Is(err, journal.ErrCorrupt) || errors.Is(err, journal.ErrNoAnswer) {
		t.Errorf("a damaged piece: %v", err)
	}
	newer := fmt.Errorf("history of a run: %w", core.ErrNewerEntry)
	if j.classify(newer) != refused || errors.Is(j.unanswered(t.Context(), newer), journal.ErrNoAnswer) {
		t.Error("an entry of newer code counts as a database that does not answer")
	}
	i, err := j.Inspect(t.Context())
	if err != nil || len(i.Problems) != 3 || !strings.Contains(i.Problems[0], "first piece: ") {
		t.Errorf("%v, %v", i.Problems, err)
	}
}
