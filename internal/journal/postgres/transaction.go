package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/journal"
)

// transaction is a transaction of a mover. It may take long, unlike all others.
type transaction struct {
	*storage
	tx pgx.Tx
}

// long begins one. The server's own limits of statements do not apply in it. A mover that stops in the middle must not
// keep others out.
func (s *storage) long(ctx context.Context, o pgx.TxOptions) (*transaction, error) {
	tx, err := s.pool.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	t := &transaction{s, tx}
	if server := s.fence.current(); server != "" && server != namelessServer {
		err = t.exec(ctx, guardText, server)
	}
	if isGuard(err) {
		t.end(ctx)
		return nil, errors.Join(errMoved, s.fence.behind(ctx))
	}
	if err == nil {
		err = t.exec(ctx, "SET LOCAL statement_timeout = 0")
	}
	if err == nil {
		err = t.exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = '1min'")
	}
	if err != nil {
		t.end(ctx)
		return nil, err
	}
	return t, nil
}

// end rolls back, unless the transaction was committed.
func (t *transaction) end(ctx context.Context) { _ = t.tx.Rollback(context.WithoutCancel(ctx)) }

func (t *transaction) exec(ctx context.Context, text string, args ...any) error {
	t.statements.Add(1)
	_, err := t.tx.Exec(ctx, t.in(text), append([]any{t.mode()}, args...)...)
	return err
}

func (t *transaction) row(ctx context.Context, text string, args ...any) pgx.Row {
	t.statements.Add(1)
	return t.tx.QueryRow(ctx, t.in(text), append([]any{t.mode()}, args...)...)
}

// ids reads the ids of runs.
func (t *transaction) ids(ctx context.Context, text string, args ...any) (uuids, error) {
	t.statements.Add(1)
	rows, err := t.tx.Query(ctx, text, append([]any{t.mode()}, args...)...)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	return append(newUUIDs(len(found)), found...), err
}

// removeParts deletes what a partition has beside its runs.
func (t *transaction) removeParts(ctx context.Context, p int) error {
	for _, of := range []string{
		"journal WHERE partition", "feeds WHERE partition", "taken WHERE partition",
		"inbox WHERE sender",
	} {
		if err := t.exec(ctx, "DELETE FROM {schema}."+of+" = $1", p); err != nil {
			return err
		}
	}
	return t.exec(ctx, "DELETE FROM {schema}.documents WHERE starts_with(key, $1)", journal.OfPartition(p))
}

// removeRuns deletes runs with all their data.
func (t *transaction) removeRuns(ctx context.Context, ids uuids) error {
	for _, of := range []string{
		"history WHERE run", "attempts_data WHERE run", "steps_data WHERE run", "runs_data WHERE id",
	} {
		if err := t.exec(ctx, "DELETE FROM {schema}."+of+" = ANY ($1)", ids); err != nil {
			return err
		}
	}
	return nil
}
