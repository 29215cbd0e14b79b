package share

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/cluster"
)

// moves is cluster.Stores by another name, since a storage has a method of that one.
type moves = cluster.Stores

// slowStore is the storage of a cluster with a store that answers, and that the node reaches, from some time on.
type slowStore struct {
	cluster.Storage
	moves
	answers, reached time.Time
	placed           string
}

func (s *slowStore) Stores() cluster.Stores { return s }

func (s *slowStore) Snapshot(context.Context) (cluster.Snapshot, error) {
	b := cluster.Store{Name: "b"}
	if time.Now().Before(s.answers) {
		b.Err = errors.New("it does not answer")
	}
	n := cluster.Node{ID: "one", Alive: true}
	if !time.Now().Before(s.reached) {
		n.Reaches = "b"
	}
	return cluster.Snapshot{
		Nodes: []cluster.Node{n}, Stores: []cluster.Store{{Name: "first"}, b},
		Partitions: []cluster.Partition{{Store: "first", Target: "first"}},
	}, nil
}

func (s *slowStore) Place(_ context.Context, _ int, store string) error {
	s.placed = store
	return nil
}

// TestMoveWaitsForAStore checks that a store and the nodes get some time until a move to it is refused.
func TestMoveWaitsForAStore(t *testing.T) {
	for name, test := range map[string]struct {
		answers, reached time.Duration
		refusal          string
	}{
		"at once":           {},
		"answers later":     {answers: time.Second},
		"reached later":     {reached: 2 * time.Second},
		"never answers":     {answers: time.Hour, refusal: "it does not answer"},
		"is reached by one": {reached: time.Hour, refusal: "not reached by one"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slowStore{answers: time.Now().Add(test.answers), reached: time.Now().Add(test.reached)}
				err := Operator{Storage: s}.MoveToStore(t.Context(), api.StoreMove{Partition: 0, Store: "b"})
				said, placed := fmt.Sprint(err), "b"
				if test.refusal != "" {
					placed = ""
				}
				if !strings.Contains(said, cmp.Or(test.refusal, fmt.Sprint(nil))) || s.placed != placed {
					t.Errorf("%q, %s", s.placed, said)
				}
			})
		})
	}
}
