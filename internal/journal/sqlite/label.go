package sqlite

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// labelTable stores what runs can be searched by.
const labelTable = `
CREATE TABLE labels (
	run   BLOB NOT NULL,
	key   TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (run, key)
) WITHOUT ROWID;
CREATE INDEX labels_value ON labels (key, value, run);
`

// labelsOf is an expression for the labels of the row r, in the form of core.Labels. People read the views with the
// sqlite3 that they have: ordered aggregates need its version 3.44, so the rows are put in order below.
const labelsOf = "(SELECT group_concat(label, char(10)) FROM" +
	" (SELECT key || '=' || value AS label FROM labels WHERE run = r.id ORDER BY key))"

// labels writes the labels of runs. Most programs use none, so nothing is looked up before the file has the first.
func (w *writer) labels(rows []journal.RunRow) error {
	for i := range rows {
		r := &rows[i]
		if r.Labels == "" && !w.labelled {
			continue
		}
		w.labelled = true
		w.dropLabels.BindBytes(1, r.ID[:])
		if err := do(w.dropLabels); err != nil {
			return err
		}
		for key, value := range r.Labels.Map() {
			w.addLabel.BindBytes(1, r.ID[:])
			w.addLabel.BindText(2, key)
			w.addLabel.BindText(3, value)
			if err := do(w.addLabel); err != nil {
				return err
			}
		}
	}
	return nil
}

// listLabels adds the conditions for labels to a query of runs.
func listLabels(b *strings.Builder, labels core.Labels, args []any) []any {
	for key, value := range labels.Map() {
		b.WriteString(" AND EXISTS (SELECT 1 FROM labels WHERE run = r.id AND key = ? AND value = ?)")
		args = append(args, key, value)
	}
	return args
}

// mostBodies is how many runs that only a process knows to be stuck a query can name: the newest ones.
const mostBodies = 10_000

// listStuck adds the condition for stuck runs to a query of runs.
func listStuck(b *strings.Builder, bodies map[core.RunID]bool, args []any) []any {
	// Written in this form, the condition lets SQLite use the partial index of wake times.
	b.WriteString(" AND r.ended_at = 0 AND r.id IN (SELECT id FROM runs_data WHERE partition IN" +
		" (SELECT partition FROM partitions) AND wake > 0 AND wake = ?")
	args = append(args, journal.WakeSetAside)
	ids := make([]core.RunID, 0, len(bodies))
	for id := range bodies {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b core.RunID) int { return slices.Compare(b[:], a[:]) })
	ids = ids[:min(len(ids), mostBodies)]
	for n := len(ids); n > 0 && bits.OnesCount(uint(len(ids))) > 1; { // few lengths, as statements are kept
		ids = append(ids, ids[n-1])
	}
	for _, id := range ids {
		args = append(args, slices.Clone(id[:]))
	}
	if n := len(ids); n > 0 {
		b.WriteString(" UNION ALL VALUES (?)" + strings.Repeat(", (?)", n-1))
	}
	b.WriteString(")")
	return args
}
