package cluster

import (
	"context"
	"slices"
	"strings"
)

// Stores is a Storage whose partitions can be kept by several databases. A partition is moved by its owner, in three
// parts that may each be repeated, by another node as well: Copy while it works, Switch when it has given the
// partition back, and Clean some time later.
type Stores interface {
	// AddStore makes a database one that can keep partitions, or changes the address of one. The address has no
	// password. Errors: a *RefusedError.
	AddStore(ctx context.Context, name, address string) error
	// RemoveStore removes a database from the stores of partitions; gone means that it is lost for good, and need not
	// answer. Errors: a *RefusedError.
	RemoveStore(ctx context.Context, name string, gone bool) error
	// Place says which store should keep a partition. Nothing is moved by that alone.
	Place(ctx context.Context, partition int, store string) error
	// Copy brings most of a partition to the store that should keep it.
	Copy(ctx context.Context, partition int) error
	// Switch takes the partition that nobody owns, brings the rest of it, and makes that store the one that keeps it.
	// Nobody owns it then. If it fails, the partition is whole where it was, or where it should be.
	Switch(ctx context.Context, partition int, owner string) error
	// Clean removes a part of the rows of a partition from a store that does not keep it; more means that there are
	// others.
	Clean(ctx context.Context, partition int, store string) (more bool, err error)
}

// PasswordOf returns the name of the environment variable with the password of a store. Without that variable the one
// of libpq is used, PGPASSWORD, or the file ~/.pgpass.
func PasswordOf(store string) string { return "PAWL_STORE_" + strings.ToUpper(store) + "_PASSWORD" }

// RefusedError says why a database cannot become a store, or cannot cease to be one.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return e.Text }

// restAfter is how many rounds a member rests after a move that failed.
const restAfter = 10

// storeMove is a task of a member beside its rounds: it moves one of its partitions to another store, or removes
// what a move has left.
type storeMove struct {
	partition int
	ended     chan error
}

// endMove notes the end of a move. It is called before the table is read: what was read before a move has ended would
// have it done again.
func (m *Member) endMove(ctx context.Context) {
	e := m.storeMove
	if e == nil {
		return
	}
	select {
	case err := <-e.ended:
		if m.storeMove = nil; err != nil && ctx.Err() == nil {
			m.resting = restAfter
			m.cfg.Log.Warn("a partition could not be moved to its store, trying again", "partition", e.partition,
				"error", err)
		}
	default:
	}
}

// runMove begins a move if one of the partitions needs it and no other is on its way. It returns the partition that
// must not be taken meanwhile, because it is being moved, or -1 if there is none.
func (m *Member) runMove(ctx context.Context, s Snapshot, own []int) (moving int) {
	stores := m.cfg.Storage.Stores()
	if stores == nil {
		return -1
	}
	if m.storeMove != nil {
		return m.storeMove.partition
	}
	if m.resting > 0 {
		m.resting--
		return -1
	}
	for _, n := range slices.Sorted(slices.Values(own)) {
		p := s.Partitions[n]
		if p.Target == p.Store && p.Leftover == "" || p.Silent {
			continue
		}
		e := &storeMove{n, make(chan error, 1)}
		m.storeMove = e
		go func() {
			e.ended <- m.move(ctx, stores, n, p)
			m.Look()
		}()
		return n
	}
	return -1
}

// move removes what an earlier move has left of a partition, and else moves it.
func (m *Member) move(ctx context.Context, stores Stores, n int, p Partition) error {
	for more := p.Leftover != ""; more; {
		var err error
		if more, err = stores.Clean(ctx, n, p.Leftover); err != nil {
			return err
		}
	}
	if p.Leftover != "" || p.Target == p.Store {
		return nil
	}
	m.cfg.Log.Info("a partition moves to another store", "partition", n, "from", p.Store, "to", p.Target)
	if err := stores.Copy(ctx, n); err != nil {
		return err
	}
	if !slices.Contains(m.cfg.Engine.Owned(), n) {
		return nil // it was lost meanwhile, and its new owner goes on
	}
	m.giveAll([]int{n})
	if err := stores.Switch(ctx, n, m.cfg.Node.ID); err != nil {
		return err
	}
	m.cfg.Log.Info("a partition is kept by another store now", "partition", n, "store", p.Target)
	return nil
}
