package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Storage keeps the table of nodes.
type Storage interface {
	// Beat reports that a node is alive. Its Since, Alive and Leaving do not matter: others may have asked it to leave,
	// which Beat returns. A node that was removed is there again.
	Beat(ctx context.Context, n Node) error
	// Snapshot returns all nodes with a sign of life within the time, or which own something, and all partitions.
	Snapshot(ctx context.Context) (Snapshot, error)
	// Ask asks a node to leave, or takes that back. It returns false if there is no such node.
	Ask(ctx context.Context, node string, leave bool) (bool, error)
	// Pin asks for a partition to be with a node, as long as that is in the table. It returns false if there is no such
	// node.
	Pin(ctx context.Context, partition int, node string) (bool, error)
	// Unpin takes that back. It returns false if nothing was said.
	Unpin(ctx context.Context, partition int) (bool, error)
	// Remove removes a node, and forgets which partitions should be with it.
	Remove(ctx context.Context, node string) error
	// Now returns what the clock of the storage shows.
	Now(ctx context.Context) (time.Time, error)
	// Stores returns what moves partitions between several databases, or nil if there is always one.
	Stores() Stores
}

// Shareable is a journal that several processes can share.
type Shareable interface {
	// Nodes returns the table of nodes, and how long a lease of a partition lasts.
	Nodes() (nodes Storage, lease time.Duration)
}

// Partitions are taken and given back as the plan of the cluster says. An engine is one.
type Partitions interface {
	Take(ctx context.Context, partition int) error
	Give(partition int) error
	Owned() []int
}

// Config configures a member.
type Config struct {
	Node    Node
	Storage Storage
	Engine  Partitions
	// Every is the time between two signs of life.
	Every time.Duration
	// Moved is called after this node has given partitions back, so that others can be told to look. Default: none.
	Moved func(ctx context.Context, s Snapshot)
	// Drained reports whether another table of nodes asks this one to leave. A change of that is passed on to the own
	// table. Default: there is none.
	Drained func() bool
	Log     *slog.Logger
}

// Member is this process as a node of the cluster.
type Member struct {
	cfg   Config
	stand atomic.Pointer[Snapshot]
	look  chan struct{}
	moves atomic.Int64
	fails atomic.Pointer[error]     // the failure of the last round; nil if it went well
	round atomic.Pointer[time.Time] // when the round that is on its way began; nil: none is
	// drained is what Drained said last.
	drained bool

	// Only Round uses these.
	storeMove *storeMove      // nil: none is on its way
	resting   int             // rounds until the next move
	silent    map[string]bool // stores that do not answer, by name

	mu      sync.Mutex
	free    map[int]time.Time // since when partitions have no owner, as far as this node has seen
	refused map[int]error     // why this node could not take partitions that have none
	changed chan struct{}     // closed when another stand was read
	stopped chan struct{}
	cancel  context.CancelFunc
}

// ForeignError is the error of a node with another secret than the nodes that are there.
type ForeignError struct {
	Node    Node
	Program bool // this node is a Go program
}

// OfProgram begins the fingerprints of nodes that are Go programs. The two sorts do not know each other's workflows, so
// they do not share partitions; this also holds for nodes of versions that do not know of the mark.
const OfProgram = "program "

func (e *ForeignError) Error() string {
	if e.Program != strings.HasPrefix(e.Node.Secret, OfProgram) {
		sort := map[bool]string{true: "Go programs", false: "pawl server"}
		return fmt.Sprintf("the database belongs to a cluster of %s, such as the node %s at %s, and this is one of "+
			"%s; give it a schema of its own with ?schema=NAME", sort[!e.Program], e.Node.ID, e.Node.Address,
			sort[e.Program])
	}
	return fmt.Sprintf("the database belongs to another cluster: the node %s at %s has another secret; give this one "+
		"the same secret, or a schema of its own with ?schema=NAME", e.Node.ID, e.Node.Address)
}

// Join makes this process a node, like Enter, and has a round again and again. The member takes partitions until Leave.
func Join(ctx context.Context, cfg Config) (*Member, error) {
	m, err := Enter(ctx, cfg)
	if err != nil {
		return nil, err
	}
	ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go m.run(ctx)
	return m, nil
}

// Enter puts this process on the table of nodes. It fails with a [ForeignError] where nodes with another secret are
// alive. The caller calls Round from time to time; Leave is for those that Join.
func Enter(ctx context.Context, cfg Config) (*Member, error) {
	if cfg.Moved == nil {
		cfg.Moved = func(context.Context, Snapshot) {}
	}
	m := &Member{
		cfg: cfg, look: make(chan struct{}, 1), changed: make(chan struct{}), stopped: make(chan struct{}),
		free: map[int]time.Time{}, refused: map[int]error{},
	}
	s, err := cfg.Storage.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range s.Nodes {
		if n.Alive && n.Secret != cfg.Node.Secret {
			return nil, &ForeignError{n, strings.HasPrefix(cfg.Node.Secret, OfProgram)}
		}
	}
	if err := cfg.Storage.Beat(ctx, cfg.Node); err != nil {
		return nil, err
	}
	m.keep(s)
	return m, nil
}

// Look makes the member read the table of nodes soon, because something has changed.
func (m *Member) Look() {
	select {
	case m.look <- struct{}{}:
	default:
	}
}

// Snapshot returns what the member has read last.
func (m *Member) Snapshot() Snapshot { return *m.stand.Load() }

// Moves counts the partitions that this node has taken or given back.
func (m *Member) Moves() int64 { return m.moves.Load() }

// callersWait is how long callers may get no answers until the node says that it is not ready.
const callersWait = 2 * time.Second

// Failing returns why callers get no answers: the table of nodes cannot be read or written, or does not answer, or a
// partition has no owner. It returns nil if they do.
func (m *Member) Failing() error {
	if err := m.fails.Load(); err != nil {
		return *err
	}
	if began := m.round.Load(); began != nil && time.Since(*began) >= callersWait {
		return fmt.Errorf("the database has not answered the node for %s: is the way to it cut, or does somebody "+
			"hold locks on its tables?", time.Since(*began).Round(100*time.Millisecond))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range slices.Sorted(maps.Keys(m.free)) {
		if since := m.free[p]; time.Since(since) >= callersWait {
			text := fmt.Sprintf("partition %d has had no owner for %s", p,
				time.Since(since).Round(100*time.Millisecond))
			if err := m.refused[p]; err != nil {
				return fmt.Errorf("%s, and this node cannot take it: %w", text, err)
			}
			return errors.New(text)
		}
	}
	return nil
}

// noteFree notes which partitions have no owner. Those of a store that does not answer are not known.
func (m *Member) noteFree(s Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, is := range s.Partitions {
		switch since := m.free[p]; {
		case is.held() || is.Silent:
			delete(m.free, p)
			delete(m.refused, p)
		case since.IsZero():
			m.free[p] = time.Now()
		}
	}
}

// Changed returns a channel that is closed when the member has read something else than before.
func (m *Member) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// OwnerOf returns the node that owns a partition; ok is false if none that is known does.
func (m *Member) OwnerOf(partition int) (n Node, ok bool) {
	s := m.Snapshot()
	if partition >= len(s.Partitions) || !s.Partitions[partition].held() {
		return Node{}, false
	}
	i := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.ID == s.Partitions[partition].Owner })
	if i < 0 {
		return Node{}, false
	}
	return s.Nodes[i], true
}

func (m *Member) keep(s Snapshot) {
	m.noteFree(s)
	if before := m.stand.Swap(&s); before != nil && reflect.DeepEqual(*before, s) {
		return // all who wait for a change would look in vain, several times a second
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *Member) run(ctx context.Context) {
	defer close(m.stopped)
	tick := time.NewTicker(m.cfg.Every)
	defer tick.Stop()
	failing := false
	for {
		began := time.Now()
		m.round.Store(&began)
		err := m.Round(ctx)
		m.round.Store(nil)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			m.cfg.Log.Warn("the table of nodes cannot be read or written, trying again", "error", err)
		case err == nil && failing:
			m.cfg.Log.Info("the table of nodes can be read and written again")
		}
		failing = err != nil
		m.fails.Store(nil)
		if failing {
			m.fails.Store(&err)
		}
		select {
		case <-tick.C:
		case <-m.look:
		case <-ctx.Done():
			return
		}
	}
}

// Round gives a sign of life, reads the table, and does what the rule says.
func (m *Member) Round(ctx context.Context) error {
	if err := m.cfg.Storage.Beat(ctx, m.cfg.Node); err != nil {
		return err
	}
	if drained := m.cfg.Drained != nil && m.cfg.Drained(); drained != m.drained {
		if _, err := m.cfg.Storage.Ask(ctx, m.cfg.Node.ID, drained); err != nil {
			return err
		}
		m.drained = drained
	}
	m.endMove(ctx)
	s, err := m.cfg.Storage.Snapshot(ctx)
	if err != nil {
		return err
	}
	m.keep(s)
	m.tellSilent(s)
	give, take := Moves(s, m.cfg.Node.ID)
	own := m.cfg.Engine.Owned()
	moving := m.runMove(ctx, s, own)
	give = slices.DeleteFunc(give, func(p int) bool { return !slices.Contains(own, p) })
	take = slices.DeleteFunc(take, func(p int) bool { return p == moving || slices.Contains(own, p) })
	if len(give)+len(take) == 0 {
		return nil
	}
	m.giveAll(give)
	var taken sync.WaitGroup
	for _, p := range take {
		taken.Go(func() { m.take(ctx, p) })
	}
	taken.Wait()
	if s, err = m.cfg.Storage.Snapshot(ctx); err != nil {
		return err
	}
	m.keep(s)
	m.cfg.Moved(ctx, s)
	return nil
}

// tellSilent logs which stores no longer answer, or do again.
func (m *Member) tellSilent(s Snapshot) {
	was := m.silent
	m.silent = map[string]bool{}
	for _, store := range s.Stores {
		switch {
		case store.Err != nil:
			if m.silent[store.Name] = true; !was[store.Name] {
				m.cfg.Log.Warn("a store does not answer, its partitions stand still", "store", store.Name,
					"error", store.Err)
			}
		case was[store.Name]:
			m.cfg.Log.Info("a store answers again", "store", store.Name)
		}
	}
}

func (m *Member) take(ctx context.Context, p int) {
	if err := m.cfg.Engine.Take(ctx, p); err != nil {
		if ctx.Err() == nil {
			m.noteRefused(p, err)
		}
		return
	}
	m.moves.Add(1)
	m.cfg.Log.Info("took a partition", "partition", p)
}

// noteRefused notes why a partition could not be taken, and logs it unless it is the same as the time before.
func (m *Member) noteRefused(p int, err error) {
	m.mu.Lock()
	before := m.refused[p]
	m.refused[p] = err
	m.mu.Unlock()
	if before == nil || before.Error() != err.Error() {
		m.cfg.Log.Warn("a partition could not be taken, trying again", "partition", p, "error", err)
	}
}

func (m *Member) giveAll(all []int) {
	var given sync.WaitGroup
	for _, p := range all {
		given.Go(func() {
			if err := m.cfg.Engine.Give(p); err != nil {
				m.cfg.Log.Warn("a partition was given back, with an error", "partition", p, "error", err)
				return
			}
			m.moves.Add(1)
			m.cfg.Log.Info("gave a partition back", "partition", p)
		})
	}
	given.Wait()
}

// Leave gives all partitions back, tells the others, and removes the node from the table.
func (m *Member) Leave(ctx context.Context) error {
	m.cancel()
	<-m.stopped
	if e := m.storeMove; e != nil {
		if err := <-e.ended; err != nil {
			m.cfg.Log.Info("the move of a partition to its store was left to the next node", "partition", e.partition,
				"error", err)
		}
	}
	_, err := m.cfg.Storage.Ask(ctx, m.cfg.Node.ID, true)
	m.giveAll(m.cfg.Engine.Owned())
	s, standErr := m.cfg.Storage.Snapshot(ctx)
	if standErr == nil {
		m.keep(s)
		m.cfg.Moved(ctx, s)
	}
	return errors.Join(err, standErr, m.cfg.Storage.Remove(ctx, m.cfg.Node.ID))
}
