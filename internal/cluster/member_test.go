package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const term = 3 * time.Second

// table is a database with the table of nodes and leases, on virtual time.
type table struct {
	mu    sync.Mutex
	nodes map[string]Node
	beats map[string]time.Time
	parts []lease
	down  map[string]bool // nodes that do not reach it
}

type lease struct {
	owner string
	pin   string
	until time.Time
}

func newTable(partitions int) *table {
	return &table{
		nodes: map[string]Node{}, beats: map[string]time.Time{}, parts: make([]lease, partitions),
		down: map[string]bool{},
	}
}

// link is the table as one node reaches it, and the engine of that node.
type link struct {
	*table
	id  string
	own map[int]bool
}

var errDown = errors.New("the database does not answer")

func (l *link) enter() error {
	l.mu.Lock()
	if l.down[l.id] {
		l.mu.Unlock()
		return errDown
	}
	return nil
}

func (l *link) Now(context.Context) (time.Time, error) { return time.Now(), nil }

func (l *link) Stores() Stores { return nil }

func (l *link) Beat(_ context.Context, n Node) error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.mu.Unlock()
	n.Leaving = l.nodes[n.ID].Leaving
	l.nodes[n.ID], l.beats[n.ID] = n, time.Now()
	for p := range l.own {
		l.parts[p].until = time.Now().Add(term)
	}
	return nil
}

func (l *link) Snapshot(context.Context) (s Snapshot, err error) {
	if err := l.enter(); err != nil {
		return s, err
	}
	defer l.mu.Unlock()
	for id, n := range l.nodes {
		n.Alive = time.Since(l.beats[id]) < term
		s.Nodes = append(s.Nodes, n)
	}
	slices.SortFunc(s.Nodes, func(a, b Node) int { return slices.Compare([]byte(a.ID), []byte(b.ID)) })
	for _, p := range l.parts {
		s.Partitions = append(s.Partitions, Partition{
			Owner: p.owner, Alive: time.Now().Before(p.until), Pin: p.pin,
		})
	}
	return s, nil
}

func (l *link) Ask(_ context.Context, id string, leave bool) (bool, error) {
	if err := l.enter(); err != nil {
		return false, err
	}
	defer l.mu.Unlock()
	n, ok := l.nodes[id]
	if n.Leaving = leave; ok {
		l.nodes[id] = n
	}
	return ok, nil
}

func (l *link) Pin(_ context.Context, p int, id string) (bool, error) {
	if err := l.enter(); err != nil {
		return false, err
	}
	defer l.mu.Unlock()
	_, ok := l.nodes[id]
	if ok {
		l.parts[p].pin = id
	}
	return ok, nil
}

func (l *link) Unpin(_ context.Context, p int) (bool, error) {
	if err := l.enter(); err != nil {
		return false, err
	}
	defer l.mu.Unlock()
	was := l.parts[p].pin
	l.parts[p].pin = ""
	return was != "", nil
}

func (l *link) Remove(_ context.Context, id string) error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.mu.Unlock()
	delete(l.nodes, id)
	for i := range l.parts {
		if l.parts[i].pin == id {
			l.parts[i].pin = ""
		}
	}
	return nil
}

func (l *link) Take(_ context.Context, p int) error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if l.parts[p].owner != "" && time.Now().Before(l.parts[p].until) {
		return fmt.Errorf("held by %s", l.parts[p].owner)
	}
	l.parts[p].owner, l.parts[p].until = l.id, time.Now().Add(term)
	l.own[p] = true
	return nil
}

func (l *link) Give(p int) error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.mu.Unlock()
	l.parts[p].owner = ""
	delete(l.own, p)
	return nil
}

func (l *link) Owned() (out []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.own {
		out = append(out, p)
	}
	return out
}

func (t *table) set(id string, down bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.down[id] = down
}

func (t *table) join(c *testing.T, id string) *Member {
	c.Helper()
	l := &link{t, id, map[int]bool{}}
	m, err := Join(c.Context(), Config{
		Node: Node{ID: id, Address: id, Secret: "one"}, Storage: l, Engine: l, Every: term / 6,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		c.Fatal(err)
	}
	return m
}

func (t *table) shares() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := map[string]int{}
	for _, p := range t.parts {
		if time.Now().Before(p.until) || p.owner == "" {
			counts[p.owner]++
		}
	}
	return fmt.Sprint(counts)
}

// TestMembers lets nodes join, lose the database, be drained and leave. The partitions follow them.
func TestMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(8)
		want := func(after time.Duration, shares string) {
			t.Helper()
			<-time.After(after)
			synctest.Wait()
			if got := db.shares(); got != shares {
				t.Errorf("shares %s, not %s", got, shares)
			}
		}
		a := db.join(t, "a")
		want(time.Second, "map[a:8]")
		b := db.join(t, "b")
		want(2*time.Second, "map[a:4 b:4]")
		c := db.join(t, "c")
		want(2*time.Second, "map[a:3 b:3 c:2]")
		if n, ok := c.OwnerOf(0); !ok || n.Address != "a" {
			t.Errorf("partition 0 is with %+v, %v", n, ok)
		}
		db.set("b", true)
		want(term+time.Second, "map[a:4 c:4]")
		if moved := a.Moves() + c.Moves(); moved != 8+4+1+1+2+2 {
			t.Errorf("%d moves of a and c", moved)
		}
		hand := &link{table: db, id: "a"}
		for p := range 6 {
			if ok, err := hand.Pin(t.Context(), p, "c"); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
		want(2*time.Second, "map[a:2 c:6]")
		for p := range 6 {
			if ok, err := hand.Unpin(t.Context(), p); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
		want(2*time.Second, "map[a:4 c:4]")
		if _, err := hand.Ask(t.Context(), "a", true); err != nil {
			t.Fatal(err)
		}
		want(2*time.Second, "map[c:8]")
		if err := c.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		want(0, "map[:8]")
		if err := a.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		if err := b.Leave(t.Context()); !errors.Is(err, errDown) {
			t.Error(err)
		}
	})
}

// TestOneSort says of a Go program and a pawl server that they share no database.
func TestOneSort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(1)
		a := db.join(t, "a")
		l := &link{db, "x", map[int]bool{}}
		program := Config{Node: Node{ID: "x", Secret: OfProgram}, Storage: l, Engine: l, Every: term}
		_, err := Join(t.Context(), program)
		if err == nil || !strings.Contains(err.Error(), "a cluster of pawl server, such as the node a at") ||
			!strings.Contains(err.Error(), "and this is one of Go programs") {
			t.Error(err)
		}
		if err := a.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestForeignNode refuses a node with another secret while one of the cluster is alive.
func TestForeignNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(1)
		a := db.join(t, "a")
		l := &link{db, "x", map[int]bool{}}
		_, err := Join(t.Context(), Config{Node: Node{ID: "x", Secret: "other"}, Storage: l, Engine: l, Every: term})
		if _, foreign := errors.AsType[*ForeignError](err); !foreign {
			t.Error(err)
		}
		if err := a.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestChanged checks that who waits for a change of the table is woken by one, and not by each round.
func TestChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(4)
		a := db.join(t, "a")
		<-time.After(term)
		changed := a.Changed()
		<-time.After(10 * term)
		select {
		case <-changed:
			t.Error("a change was told, and nothing had changed")
		default:
		}
		b := db.join(t, "b")
		<-time.After(2 * term)
		select {
		case <-changed:
		default:
			t.Error("the other node was not told of")
		}
		for _, m := range []*Member{a, b} {
			if err := m.Leave(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// refusing is a node that cannot take one of the partitions, and whose database answers only as long as it is not held.
type refusing struct {
	*link
	partition atomic.Int64
	held      atomic.Pointer[chan struct{}] // closed while the database answers
}

func (r *refusing) Take(ctx context.Context, p int) error {
	if p == int(r.partition.Load()) {
		return errors.New("a lock is held")
	}
	return r.link.Take(ctx, p)
}

func (r *refusing) Beat(ctx context.Context, n Node) error {
	<-*r.held.Load()
	return r.link.Beat(ctx, n)
}

// TestFailing checks that a node says within two seconds which partition has no owner, and why it cannot take it, and
// that the database does not answer.
func TestFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusing{link: &link{newTable(4), "a", map[int]bool{}}}
		r.partition.Store(3)
		held := make(chan struct{})
		r.held.Store(&held)
		close(held)
		m, err := Join(t.Context(), Config{
			Node: Node{ID: "a", Secret: "one"}, Storage: r, Engine: r, Every: term / 6,
			Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		says := func(after time.Duration, want string) {
			t.Helper()
			<-time.After(after)
			synctest.Wait()
			err := m.Failing()
			if want == "" && err == nil || want != "" && err != nil && strings.Contains(err.Error(), want) {
				return
			}
			t.Errorf("failing: %v, want %q", err, want)
		}
		says(time.Second, "")
		says(1100*time.Millisecond,
			"partition 3 has had no owner for 2.1s, and this node cannot take it: a lock is held")
		r.partition.Store(-1)
		says(time.Second, "")
		again := make(chan struct{})
		r.held.Store(&again)
		says(3*time.Second, "the database has not answered the node for")
		close(again)
		says(time.Second, "")
		if err := m.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
