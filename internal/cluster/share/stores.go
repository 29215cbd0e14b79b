package share

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/cluster"
)

var errNoStores = &api.Error{
	Code: api.CodeConflict, Message: "this database cannot have others beside it that keep partitions",
	Hint: "only one in PostgreSQL can",
}

// storesOf sorts the partitions by the stores that keep them.
func storesOf(s cluster.Snapshot) []api.ClusterStore {
	out := []api.ClusterStore{}
	for i, store := range s.Stores {
		c := api.ClusterStore{
			Name: store.Name, State: "reached", Address: store.Address, Partitions: []int{}, Coming: []int{},
			Unreached: []string{},
		}
		if store.Err != nil {
			c.State, c.Problem = "silent", store.Err.Error()
		}
		for n, p := range s.Partitions {
			switch store.Name {
			case p.Store:
				c.Partitions = append(c.Partitions, n)
			case p.Target:
				c.Coming = append(c.Coming, n)
			}
		}
		if i > 0 {
			c.Unreached = unreached(s, store.Name)
		}
		out = append(out, c)
	}
	return out
}

// unreached returns the nodes that are alive and have not reached a store.
func unreached(s cluster.Snapshot, store string) []string {
	out := []string{}
	for _, n := range s.Nodes {
		if n.Alive && !slices.Contains(strings.Split(n.Reaches, ","), store) {
			out = append(out, n.ID)
		}
	}
	return out
}

func (o Operator) AddStore(ctx context.Context, r api.StoreAdd) error {
	stores := o.Storage.Stores()
	if stores == nil {
		return errNoStores
	}
	return refused(stores.AddStore(ctx, r.Name, r.Address))
}

// refused returns an error in the form of the API.
func refused(err error) error {
	if refused := new(cluster.RefusedError); errors.As(err, &refused) {
		return &api.Error{Code: api.CodeConflict, Message: refused.Text}
	}
	return err
}

func (o Operator) RemoveStore(ctx context.Context, r api.StoreRemove) error {
	stores := o.Storage.Stores()
	if stores == nil {
		return errNoStores
	}
	s, err := o.Snapshot(ctx)
	if err != nil {
		return err
	}
	switch i := slices.IndexFunc(s.Stores, func(store cluster.Store) bool { return store.Name == r.Name }); {
	case i == 0:
		return &api.Error{Code: api.CodeConflict, Message: "the first database has the map of the stores, and stays"}
	case i < 0:
		return noStore(r.Name)
	default:
		if err := inUse(s, s.Stores[i], r.Gone); err != nil {
			return err
		}
	}
	return refused(stores.RemoveStore(ctx, r.Name, r.Gone))
}

// inUse refuses to remove a store that keeps partitions, also one that is gone: their runs are nowhere else, and
// without the store nobody would know where to look for them.
func inUse(s cluster.Snapshot, store cluster.Store, gone bool) error {
	var keeps, coming []string
	calledOff := ""
	for n, p := range s.Partitions {
		switch store.Name {
		case p.Store:
			keeps = append(keeps, strconv.Itoa(n))
		case p.Target:
			coming = append(coming, strconv.Itoa(n))
			calledOff = fmt.Sprintf("call that off: pawl cluster store move %d %s", n, p.Store)
		}
	}
	e := &api.Error{Code: api.CodeConflict}
	switch {
	case len(keeps) > 0 && (gone || store.Err != nil):
		e.Message = fmt.Sprintf("the store %s keeps partitions, whose runs are nowhere else: %s", store.Name,
			strings.Join(keeps, ", "))
		e.Hint = fmt.Sprintf("restore its database from a backup, and if that is at another address: "+
			"pawl cluster store add %s ADDRESS", store.Name)
	case len(keeps) > 0:
		e.Message = fmt.Sprintf("the store %s keeps partitions: %s", store.Name, strings.Join(keeps, ", "))
		e.Hint = fmt.Sprintf("move them: pawl cluster store move %s first", keeps[0])
	case len(coming) > 0:
		e.Message = fmt.Sprintf("partitions are being moved to the store %s: %s", store.Name,
			strings.Join(coming, ", "))
		e.Hint = calledOff
	default:
		return nil
	}
	return e
}

func noStore(name string) error {
	return &api.Error{
		Code: api.CodeNotFound, Message: fmt.Sprintf("there is no store %q", name),
		Hint: "pawl cluster store list lists them, pawl cluster store add makes one",
	}
}

// MoveToStore implements api.Cluster. The owner of the partition moves it. Where no node is alive, it is moved at once.
func (o Operator) MoveToStore(ctx context.Context, r api.StoreMove) error {
	stores := o.Storage.Stores()
	if stores == nil {
		return errNoStores
	}
	s, err := o.reached(ctx, r.Store)
	if err == nil {
		err = movable(s, r)
	}
	if err == nil {
		err = stores.Place(ctx, r.Partition, r.Store)
	}
	alone := !slices.ContainsFunc(s.Nodes, func(n cluster.Node) bool { return n.Alive })
	if err != nil || !alone || s.Partitions[r.Partition].Store == r.Store {
		return err
	}
	if err = stores.Copy(ctx, r.Partition); err == nil {
		err = stores.Switch(ctx, r.Partition, "pawl cluster store move")
	}
	if err != nil { // nobody else would go on with it
		err = errors.Join(err, stores.Place(context.WithoutCancel(ctx), r.Partition, s.Partitions[r.Partition].Store))
	}
	return err
}

// reachWithin is how long a store may need to answer who wants to move something there. Others give it a part of a
// lease only, and the first connection to a busy or distant database takes more.
const reachWithin = 3 * time.Second

// reached returns the nodes' state as soon as a store has answered and all nodes have reached it, or when it had its
// time for that.
func (o Operator) reached(ctx context.Context, store string) (s cluster.Snapshot, err error) {
	for end := time.Now().Add(reachWithin); ; {
		if s, err = o.Snapshot(ctx); err != nil {
			return s, err
		}
		i := slices.IndexFunc(s.Stores, func(s cluster.Store) bool { return s.Name == store })
		if i <= 0 || (s.Stores[i].Err == nil && len(unreached(s, store)) == 0) || time.Now().After(end) {
			return s, nil
		}
		select {
		case <-time.After(reachWithin / 20):
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
}

// movable refuses a move that would not come about.
func movable(s cluster.Snapshot, r api.StoreMove) error {
	if err := within(s, r.Partition); err != nil {
		return err
	}
	i := slices.IndexFunc(s.Stores, func(store cluster.Store) bool { return store.Name == r.Store })
	p := s.Partitions[r.Partition]
	var missing []string
	if i > 0 {
		missing = unreached(s, r.Store)
	}
	switch {
	case i < 0:
		return noStore(r.Store)
	case p.Store == r.Store && p.Target == r.Store:
		return &api.Error{Code: api.CodeConflict, Message: fmt.Sprintf(
			"partition %d is in the store %s already", r.Partition, r.Store)}
	case p.Store == r.Store:
		return nil // it stays
	case s.Stores[i].Err != nil:
		return &api.Error{Code: api.CodeConflict, Message: s.Stores[i].Err.Error()}
	case len(missing) > 0:
		return &api.Error{
			Code: api.CodeConflict, Message: fmt.Sprintf("the store %s was not reached by %s", r.Store,
				strings.Join(missing, ", ")),
			Hint: "each node needs its password, in " + cluster.PasswordOf(r.Store) + " or ~/.pgpass, and a " +
				"version that knows of stores; it tries all the time",
		}
	}
	return nil
}
