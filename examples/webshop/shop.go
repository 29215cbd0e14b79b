package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/outbox"
)

type order struct {
	ID   string `json:"id"`
	Item string `json:"item"`
}

// shop is the web shop: a database, its orders and their workflow.
type shop struct {
	db     *sql.DB
	box    *outbox.Outbox
	fulfil *pawl.Workflow[order, string]
}

func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.post)
	mux.HandleFunc("GET /orders/{id}", s.get)
	return mux
}

// post takes an order. A client that gets no answer sends it again, with the same id.
func (s *shop) post(w http.ResponseWriter, r *http.Request) {
	var o order
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&o)
	if err != nil || o.ID == "" || o.Item == "" {
		http.Error(w, `want {"id": "order-1", "item": "book"}`, http.StatusBadRequest)
		return
	}
	if err := s.save(r.Context(), o); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// save saves the order and starts its workflow: both or neither.
func (s *shop) save(ctx context.Context, o order) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	saved, err := tx.ExecContext(ctx,
		`INSERT INTO orders (id, item, status) VALUES (?, ?, 'taken') ON CONFLICT DO NOTHING`, o.ID, o.Item)
	if err != nil {
		return err
	}
	if n, err := saved.RowsAffected(); n == 0 {
		return err // it was taken before
	}
	if err := outbox.StartIn(ctx, s.box, outbox.SQLTx(tx), s.fulfil, o.ID, o); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.box.Committed() // the relay looks at once, and not within a second
	return nil
}

// get shows how far an order is.
func (s *shop) get(w http.ResponseWriter, r *http.Request) {
	var status string
	err := s.db.QueryRowContext(r.Context(), `SELECT status FROM orders WHERE id = ?`, r.PathValue("id")).Scan(&status)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		http.NotFound(w, r)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		_ = json.NewEncoder(w).Encode(map[string]string{"status": status}) // the client may be gone
	}
}

// deliver runs the workflow.
func (s *shop) deliver(ctx pawl.Context, o order) (string, error) {
	if err := pawl.Do(ctx, "charge", func(ctx context.Context) error {
		// The process may die after the bank has taken the money and before that is recorded. Then this function runs
		// again, with the same key, and the bank recognises the payment.
		return s.charge(ctx, pawl.Attempt(ctx).IdempotencyKey, o)
	}); err != nil {
		return "", err
	}
	if err := pawl.Do(ctx, "charged", s.sets(o, "charged")); err != nil {
		return "", err
	}
	if err := pawl.Sleep(ctx, "packing", "500ms"); err != nil { // or an event from the warehouse
		return "", err
	}
	return "sent", pawl.Do(ctx, "sent", s.sets(o, "sent"))
}

// charge simulates a bank, which accepts a key only once.
func (s *shop) charge(ctx context.Context, key string, o order) error {
	_, err := s.db.ExecContext(ctx,
		`INSERT INTO payments (key, order_id) VALUES (?, ?) ON CONFLICT DO NOTHING`, key, o.ID)
	return err
}

// sets returns a step's function that sets the order's status.
func (s *shop) sets(o order, status string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, err := s.db.ExecContext(ctx, `UPDATE orders SET status = ? WHERE id = ?`, status, o.ID)
		return err
	}
}
