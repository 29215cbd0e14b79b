package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// A partition is moved from one store to another one in passes. Each is one transaction of the target that brings the
// changes since the one before, read in one snapshot of the source. The target's row of the partition has the position,
// so another process can continue. The last pass happens under a lease in the source, while nobody writes:
//
//	1. passes, while the owner works
//	2. the owner gives the partition back, the mover takes it, and makes the last pass
//	3. the source leases it to the target for ever. From here on the partition is the target's
//	4. the target opens it
//	5. the map says so
//
// Before 3 the whole partition is in the source, and its lease ends on its own. After 3 whoever wants to acquire it
// finishes 4 and 5, see [stores.settle].

const (
	mostPasses = 8
	fewRows    = 1000 // a pass with fewer rows is the last one before the partition is given back
)

// moved are the tables of a partition: their columns, and which rows are the partition's. {changed} selects the runs
// that have changed since an earlier pass.
var moved = []struct{ table, columns, rows string }{
	{"runs_data", "created_at, ended_at, deadline, wake, applied, partition, phase, id, definition, parent, workflow," +
		" workflow_id, key, message, labels, piece, steps", "id {changed}"},
	{
		"steps_data", "scheduled_at, ended_at, next_at, deadline, step, attempt, kind, phase, reason, run, name," +
			" message",
		"run {changed}",
	},
	{
		"attempts_data", "ready_at, started_at, ended_at, step, attempt, \"limit\", run, worker, outcome, message",
		"run {changed}",
	},
	{"history", "seq, sum, run, entries", "run {changed}"},
	{"journal", "partition, seq, sum, entries", "partition = {partition}"},
	{"feeds", "partition, name, seq, lapsed, removed", "partition = {partition}"},
	{"taken", "partition, sender, through", "partition = {partition}"},
	{"inbox", "target, sender, seq, sum, message", "sender = {partition}"},
	{"documents", "key, value", "key LIKE 'partitions/{partition}/%'"},
}

// changedText selects the runs whose rows were written after the view had every batch up to one. The row of a run that
// was set aside may be written without a batch.
const changedText = "SELECT id FROM {schema}.runs_data WHERE partition = {partition} AND" +
	" (applied > {since} OR wake = 2)"

// The index with which a pass finds changes, as long as the source has rows of the partition.
const (
	indexText = "CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_moving_{partition} ON {schema}.runs_data (applied)" +
		" WHERE partition = {partition}"
	noIndexText = "DROP INDEX CONCURRENTLY IF EXISTS {schema}.runs_moving_{partition}"
)

// hasten runs a statement that only makes moves faster, or writes after them. It may fail: each node does this on its
// own, and two at once may block each other.
func (s *storage) hasten(ctx context.Context, text string, p int) {
	_ = s.query(ctx, s.about(text, p, 0), nil, func(pgx.Rows) error { return nil })
}

// about fills in the partition, and the batch after which changes count.
func (s *storage) about(text string, partition int, since uint64) string {
	return s.in(strings.NewReplacer("{partition}", fmt.Sprint(partition), "{since}", fmt.Sprint(since)).Replace(text))
}

// route returns where a partition is, and where it should be.
func (s *stores) route(ctx context.Context, p int) (from, to *storage, err error) {
	if err := s.ready(ctx, p); err != nil {
		return nil, nil, err
	}
	if err := s.readMap(ctx); err != nil {
		return nil, nil, err
	}
	l := s.layout.Load()
	from, to = l.all[l.places[p]], l.all[l.targets[p]]
	if from == to {
		return nil, nil, fmt.Errorf("journal: partition %d does not move: it is where it should be", p)
	}
	return from, to, errors.Join(from.begin(ctx), to.begin(ctx))
}

func (s *stores) Copy(ctx context.Context, p int) error {
	from, to, err := s.route(ctx, p)
	if err != nil {
		return err
	}
	if err := shareDefinitions(ctx, from, to); err != nil {
		return err
	}
	from.hasten(ctx, indexText, p)
	for range mostPasses {
		rows, err := pass(ctx, p, from, to, false)
		if err != nil {
			return err
		}
		if rows < fewRows {
			break
		}
	}
	for _, m := range moved { // the target has none of these rows yet, and would read a whole large partition
		to.hasten(ctx, "ANALYZE {schema}."+m.table, p) //nolint:misspell // SQL
	}
	return nil
}

func (s *stores) Switch(ctx context.Context, p int, owner string) error {
	from, to, err := s.route(ctx, p)
	if err != nil {
		return err
	}
	lease, err := from.Acquire(ctx, p, owner)
	if err != nil {
		return err
	}
	if err = s.handOver(ctx, p, from, to, lease); err != nil {
		// If the source still has it, nobody has to wait for the end of the lease.
		return errors.Join(err, from.Release(context.WithoutCancel(ctx), p, lease.Epoch))
	}
	_ = from.Release(ctx, p, lease.Epoch) // forgets it: the epoch is another one
	_, err = s.settle(ctx, p)
	return err
}

// handOver makes the last pass, and leases the partition to the target.
func (s *stores) handOver(ctx context.Context, p int, from, to *storage, lease journal.Lease) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		for tick := time.NewTicker(s.lease / 3); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				if _, err := from.Renew(ctx, p, lease.Epoch); err != nil {
					stop(err)
				}
			}
		}
	}()
	_, err := pass(ctx, p, from, to, true)
	cause := context.Cause(ctx)
	stop(nil)
	<-renewed
	if err != nil {
		return errors.Join(err, cause)
	}
	return s.give(context.WithoutCancel(ctx), p, from, to, lease.Epoch)
}

const thereText = "SELECT 1 FROM {schema}.stores WHERE name = $1 FOR KEY SHARE"

// give leases a partition to another store while that cannot be removed from the map.
func (s *stores) give(ctx context.Context, p int, from, to *storage, epoch uint64) error {
	if to.id == "" { // the first one stays
		return from.leaseAway(ctx, p, epoch, to)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	first, err := s.long(ctx, pgx.TxOptions{})
	if err != nil {
		return s.wrap("move", err)
	}
	defer first.end(ctx)
	there := 0
	err = first.row(ctx, thereText, to.id).Scan(&there)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("journal: move partition %d: the store %s was removed", p, to.id)
	}
	if err != nil {
		return s.wrap("move", err)
	}
	return from.leaseAway(ctx, p, epoch, to)
}

const leaseAwayText = "UPDATE {schema}.partitions SET owner = $3, epoch = epoch + 1, term = $4::bigint, mark = $5," +
	" until = clock_timestamp() + $4::bigint * interval '1 microsecond' WHERE partition = $1 AND epoch = $2 RETURNING 1"

// leaseAway makes a partition another store's. From this moment the move can no longer fail, and it fails if somebody
// has taken the partition since the lease began.
func (s *storage) leaseAway(ctx context.Context, p int, epoch uint64, to *storage) error {
	mark, done := s.nextMark(), false
	err := s.again(ctx, func(ctx context.Context) error {
		err := s.query(ctx, s.in(leaseAwayText), []any{p, int64(epoch), awayTo(to), awayTerm.Microseconds(), mark},
			func(pgx.Rows) error { done = true; return nil })
		if err != nil || done {
			return err
		}
		o, err := s.confirmedOwner(ctx, p)
		if err == nil && o.mark != mark { // else an answer was lost
			err = fenced(p, epoch)
		}
		return err
	})
	return s.wrap("move", err)
}

// awayTo returns the owner of a partition that another store keeps.
func awayTo(to *storage) string {
	if to.id == "" {
		return awayPrefix + nameOfFirst
	}
	return awayPrefix + to.id
}

const (
	openText = "UPDATE {schema}.partitions SET owner = '', epoch = $2 + 1, until = clock_timestamp(), term = $3" +
		" WHERE partition = $1 AND epoch = $2 - 1 RETURNING 1"
	switchText = "UPDATE {schema}.placements SET store = $3, target = nullif(target, $3) WHERE partition = $1 AND" +
		" store = $2"
)

// settle finishes the move of a partition that its store has leased away: it opens the partition in the other one, and
// changes the map. It reports whether the map was changed, also by somebody else. It can be repeated: a target that has
// opened the partition has a higher epoch than the source.
func (s *stores) settle(ctx context.Context, p int) (moved bool, err error) {
	if err := s.readMap(ctx); err != nil {
		return false, err
	}
	l := s.layout.Load()
	from := l.all[l.places[p]]
	if err := from.begin(ctx); err != nil {
		return false, err
	}
	o := owner{}
	err = from.again(ctx, func(ctx context.Context) error {
		if o, err = from.ownerOf(ctx, p); err == nil && isAway(o.name) {
			o, err = from.confirmedOwner(ctx, p)
		}
		return err
	})
	if err != nil {
		return false, from.wrap("move", err)
	}
	id, away := strings.CutPrefix(o.name, awayPrefix)
	if !away {
		return false, nil
	}
	if id == nameOfFirst {
		id = ""
	}
	at, known := l.index(id)
	if !known || l.all[at] == from {
		return false, fmt.Errorf("%w: partition %d was moved from %s to the store %q, which the map does not have",
			journal.ErrNoJournal, p, from.name, id)
	}
	to := l.all[at]
	if err := to.begin(ctx); err != nil {
		return false, err
	}
	if err := to.open(ctx, p, o.epoch); err != nil {
		return false, err
	}
	if err := s.change(ctx, "move", switchText, nil, p, from.id, to.id); err != nil {
		return false, err
	}
	return true, s.readMap(ctx)
}

// open makes a partition that was leased to this store acquirable. Nothing happens where that is so already.
func (s *storage) open(ctx context.Context, p int, epoch uint64) error {
	opened := false
	err := s.change(ctx, "move", openText, &opened, p, int64(epoch), s.lease.Microseconds())
	if err != nil || opened {
		return err
	}
	o := owner{}
	err = s.again(ctx, func(ctx context.Context) error {
		o, err = s.confirmedOwner(ctx, p)
		return err
	})
	if err == nil && o.epoch <= epoch {
		err = fmt.Errorf("%w: partition %d was moved to %s, which does not have all of it: restore a backup of that"+
			" store", journal.ErrCorrupt, p, s.name)
	}
	return s.wrap("move", err)
}

// pass brings the changes of a partition since the earlier pass, and returns the number of rows. The last one leaves
// the source's epoch in the target: only under this epoch can the partition be leased to the target.
func pass(ctx context.Context, p int, from, to *storage, final bool) (rows int64, err error) {
	source, err := from.long(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return 0, from.wrap("move", err)
	}
	defer source.end(ctx)
	var epoch, last, through uint64
	err = source.row(ctx, "SELECT epoch, last, through FROM {schema}.partitions WHERE partition = $1", p).
		Scan(&epoch, &last, &through)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) { // it never had an owner
		return 0, from.wrap("move", err)
	}
	target, err := to.long(ctx, pgx.TxOptions{})
	if err != nil {
		return 0, to.wrap("move", err)
	}
	defer target.end(ctx)
	since, err := target.lockAway(ctx, p, epoch)
	which := ""
	if err == nil {
		which, err = removeChanged(ctx, p, since, source, target)
	}
	if err != nil {
		return 0, err
	}
	for _, m := range moved {
		get := "COPY (SELECT " + m.columns + " FROM {schema}." + m.table + " WHERE " +
			strings.ReplaceAll(m.rows, "{changed}", which) + ") TO STDOUT (FORMAT binary)"
		put := "COPY {schema}." + m.table + " (" + m.columns + ") FROM STDIN (FORMAT binary)"
		n, err := copyRows(ctx, source, target, from.about(get, p, since), to.in(put))
		if err != nil {
			return 0, fmt.Errorf("journal: move partition %d from %s to %s: %w", p, from.name, to.name, err)
		}
		rows += n
	}
	err = target.exec(ctx, "UPDATE {schema}.partitions SET last = $2, through = $3,"+
		" epoch = CASE WHEN $5 THEN $4 ELSE epoch END WHERE partition = $1", p, int64(last), int64(through),
		int64(epoch), final)
	if err == nil {
		err = target.tx.Commit(ctx)
	}
	return rows, to.wrap("move", err)
}

// lockAway makes sure that a store keeps no partition whose rows a mover is going to write, and that no other mover
// writes them. It returns the batch up to which earlier passes have brought everything.
func (t *transaction) lockAway(ctx context.Context, p int, epoch uint64) (since uint64, err error) {
	var owner string
	var own uint64
	err = t.row(ctx, "SELECT owner, epoch, through FROM {schema}.partitions WHERE partition = $1 FOR UPDATE NOWAIT", p).
		Scan(&owner, &own, &since)
	if err == nil && (!isAway(original(owner)) || own > epoch) {
		err = fmt.Errorf("%w: partition %d is kept by %s already", journal.ErrFenced, p, t.name)
	}
	return since, t.wrap("move", err)
}

// removeChanged deletes in the target the rows that a pass brings again: in the first pass everything that an earlier
// move has left. It returns the condition of the runs that the pass brings.
func removeChanged(ctx context.Context, p int, since uint64, source, target *transaction) (which string, err error) {
	if err := target.removeParts(ctx, p); err != nil {
		return "", target.wrap("move", err)
	}
	from, text := target, "SELECT id FROM {schema}.runs_data WHERE partition = {partition}"
	if since > 0 {
		from, text = source, changedText
	}
	ids, err := from.ids(ctx, from.about(text, p, since))
	if err != nil {
		return "", from.wrap("move", err)
	}
	which = "IN (" + changedText + ")"
	if since > 0 && len(ids) <= fewRows { // so that no large table is read from one end to the other
		var names []string
		for _, id := range ids {
			names = append(names, core.RunID(id).String())
		}
		which = "= ANY ('{" + strings.Join(names, ",") + "}'::uuid[])"
	}
	return which, target.wrap("move", target.removeRuns(ctx, ids))
}

// copyRows sends what a COPY to a client gives into a COPY from a client.
func copyRows(ctx context.Context, source, target *transaction, get, put string) (int64, error) {
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		_, err := source.tx.Conn().PgConn().CopyTo(ctx, w, get)
		_ = w.CloseWithError(err) // it never fails
		sent <- err
	}()
	tag, err := target.tx.Conn().PgConn().CopyFrom(ctx, r, put)
	_ = r.CloseWithError(err) // it never fails
	return tag.RowsAffected(), errors.Join(<-sent, err)
}
