package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// kept is a link to a table whose partitions are in stores. It writes down what is done to them.
type kept struct {
	*link
	*where
}

// where is where the partitions are, and should be.
type where struct {
	mu     sync.Mutex
	parts  map[int]Partition // their stores alone
	done   []string
	fails  int           // number of copies that fail
	copies time.Duration // how long one takes
	reads  time.Duration // how old a snapshot is when it arrives
}

func (k kept) Snapshot(ctx context.Context) (Snapshot, error) {
	s, err := k.link.Snapshot(ctx)
	k.where.mu.Lock()
	for i := range s.Partitions {
		p, at := &s.Partitions[i], k.where.parts[i]
		p.Store, p.Target, p.Leftover, p.Silent = at.Store, at.Target, at.Leftover, at.Silent
	}
	k.where.mu.Unlock()
	<-time.After(k.reads)
	return s, err
}

// does writes down what was done to a partition, and changes it.
func (k kept) does(p int, what string, change func(*Partition)) {
	k.where.mu.Lock()
	defer k.where.mu.Unlock()
	at := k.where.parts[p]
	change(&at)
	k.where.parts[p] = at
	k.done = append(k.done, fmt.Sprint(what, " ", p))
}

func (k kept) Stores() Stores { return k }

func (k kept) AddStore(context.Context, string, string) error { return nil }

func (k kept) RemoveStore(context.Context, string, bool) error { return nil }

func (k kept) Place(_ context.Context, p int, store string) error {
	k.does(p, "place", func(at *Partition) { at.Target = store })
	return nil
}

func (k kept) Copy(_ context.Context, p int) error {
	<-time.After(k.copies)
	failed := k.fails > 0
	if failed {
		k.fails--
	}
	k.does(p, "copy", func(*Partition) {})
	if failed {
		return errDown
	}
	return nil
}

func (k kept) Switch(_ context.Context, p int, owner string) error {
	k.table.mu.Lock()
	held := k.table.parts[p].owner
	k.table.mu.Unlock()
	if held != "" {
		return errors.New("held by " + held)
	}
	<-time.After(2 * term / 6) // nobody may take it meanwhile
	k.does(p, "switch by "+owner, func(at *Partition) { at.Store, at.Leftover = at.Target, at.Store })
	return nil
}

func (k kept) Clean(_ context.Context, p int, store string) (bool, error) {
	k.does(p, "clean "+store, func(at *Partition) { at.Leftover = "" })
	return false, nil
}

// TestStoreMoves checks that the owner of a partition moves it and removes what is left, one partition at a time, and
// again after an error.
func TestStoreMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(2)
		at := Partition{Store: "first", Target: "first"}
		w := &where{parts: map[int]Partition{0: at, 1: at}, copies: 10 * term, fails: 1}
		k := kept{&link{db, "a", map[int]bool{}}, w}
		m, err := Join(t.Context(), Config{
			Node: Node{ID: "a", Secret: "one"}, Storage: k, Engine: k, Every: term / 6,
			Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		want := func(after time.Duration, done string) {
			t.Helper()
			<-time.After(after)
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			if got := strings.Join(w.done, ", "); got != done {
				t.Errorf("done: %s; expected: %s", got, done)
			}
			w.done = nil
		}
		<-time.After(term)
		for p := range 2 {
			if err := k.Place(t.Context(), p, "b"); err != nil {
				t.Fatal(err)
			}
		}
		want(9*term, "place 0, place 1")
		if got := db.shares(); got != "map[a:2]" {
			t.Errorf("while it is copied: %s", got)
		}
		want(2*term, "copy 0")
		want(40*term, "copy 0, switch by a 0, copy 1, switch by a 1, clean first 0, clean first 1")
		if got := db.shares(); got != "map[a:2]" {
			t.Errorf("at the end: %s", got)
		}

		// Nothing can be moved from a store that does not answer.
		k.does(1, "silence", func(at *Partition) { at.Target, at.Silent = "c", true })
		want(20*term, "silence 1")
		if err := m.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestMoveEndsDuringARound checks that a move that ends while a round reads the table is not done again for what the
// round has read before.
func TestMoveEndsDuringARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &where{parts: map[int]Partition{0: {Store: "first", Target: "b"}}, copies: term, reads: 10 * term}
		k := kept{&link{newTable(1), "a", map[int]bool{}}, w}
		m, err := Enter(t.Context(), Config{
			Node: Node{ID: "a", Secret: "one"}, Storage: k, Engine: k, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if err := m.Round(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := strings.Join(w.done, ", "); got != "copy 0, switch by a 0, clean first 0" {
			t.Errorf("done: %s", got)
		}
	})
}

// TestSilentStore checks that nobody takes a partition of which nobody knows whether it has an owner.
func TestSilentStore(t *testing.T) {
	s := Snapshot{Nodes: nodes(1), Partitions: []Partition{{}, {Silent: true}}}
	if _, take := Moves(s, "n0"); len(take) != 1 || take[0] != 0 {
		t.Errorf("taken: %v", take)
	}
}
