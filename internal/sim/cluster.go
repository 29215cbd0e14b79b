package sim

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// machines are the nodes of a cluster that share the partitions of some universes, by the real member of a cluster and
// the leases of one journal. Each of them gives signs of life, takes its share of the partitions and gives back its
// surplus. It comes, drains and dies, is stopped past its leases, or does not reach the database for a while.
type machines struct {
	random
	u       *universe
	planted bool
	term    time.Duration // the term of leases
	up      []*machine    // the machines in the order in which they came
	count   int           // how many have ever come
	table   map[string]machineRow
	pins    map[int]string // the machine that should own a partition because an operator said so
	down    core.Time      // the database is unreachable until then
	paused  int            // owners that were stopped until another machine had taken over
	ended   int            // owners that stopped by their own clock
	given   int            // partitions that were given back
}

// machineRow is a machine in the database's table.
type machineRow struct {
	node cluster.Node
	beat core.Time
}

// machine is one process of the cluster.
type machine struct {
	c      *machines
	id     string
	member *cluster.Member
	nodes  map[int]*node // the node that runs a partition, or believes it does
	frozen core.Time     // it is stopped until then
	cut    core.Time     // it does not reach the database until then
	gone   bool
	faint  time.Duration // how long it will be stopped during its next append; 0: not at all

	mu         sync.Mutex // the member gives and takes several partitions at once
	give, take []int      // the partitions that the member wants to give and take, until the end of its round
}

// newMachines uses its own random numbers, so that universes without a cluster stay as they are. A step that kills its
// process would be hard to tell from other losses.
func newMachines(u *universe) *machines {
	c := &machines{random: newRandom(u.seed, 0xc157), u: u, table: map[string]machineRow{}, pins: map[int]string{}}
	c.planted = !u.opt.NoFaults && !u.poison.planted && (c.chance(0.3) || u.opt.Cluster)
	c.term = pick(c.random, []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute})
	if c.planted {
		u.opt.Steps *= 2 // machines give signs of life all the time
	}
	return c
}

// shortest returns how long a universe lasts at least in which leases can end.
func (c *machines) shortest() time.Duration {
	if !c.planted {
		return 0
	}
	return 8 * c.term
}

// begin begins the cluster. The partitions have no owner before.
func (c *machines) begin() {
	u := c.u
	u.disk.Term, u.disk.Now = c.term, func() core.Time { return u.now }
	for _, s := range u.partitions {
		s.node = newNode(u, s, nil)
		s.node.dead = true
	}
	for range 2 + c.IntN(2) {
		c.come()
	}
}

// come lets a machine come.
func (c *machines) come() {
	c.count++
	m := &machine{c: c, id: fmt.Sprint("machine ", c.count), nodes: map[int]*node{}}
	c.u.tracef("%s comes", m.id)
	var err error
	m.member, err = cluster.Enter(c.u.ctx, cluster.Config{
		Node: cluster.Node{ID: m.id}, Storage: m, Engine: m, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		c.u.after(c.term/10, "a machine tries to come again", c.come)
		return
	}
	c.up = append(c.up, m)
	m.round()
	c.look()
}

// look makes the machines read the table, because something has changed. The hint may be lost.
func (c *machines) look() {
	for _, m := range c.up {
		if c.chance(0.5) {
			c.u.after(c.between(0, 100*time.Millisecond), m.id+" looks", m.act)
		}
	}
}

// round repeats rounds of the member until the machine has gone.
func (m *machine) round() {
	if m.gone {
		return
	}
	m.act()
	m.c.u.after(m.c.term/5, m.id+" gives a sign of life", m.round)
}

// act plays one round of the member: it returns which partitions to give and to take.
func (m *machine) act() {
	u := m.c.u
	if m.gone || m.frozen > u.now {
		return
	}
	if err := m.member.Round(u.ctx); err != nil {
		return
	}
	give, take := slices.Sorted(slices.Values(m.give)), slices.Sorted(slices.Values(m.take))
	m.give, m.take = nil, nil
	m.checkMoves(give)
	for _, p := range give {
		if n := m.nodes[p]; n != nil {
			n.give()
		}
	}
	for _, p := range take {
		m.takeOver(u.partitions[p])
	}
	if !m.gone && m.leaving() && len(m.nodes) == 0 && len(give) == 0 {
		u.tracef("%s has drained", m.id)
		_ = m.Remove(u.ctx, m.id)
		m.leave()
	}
}

func (m *machine) leaving() bool { return m.c.table[m.id].node.Leaving }

// checkMoves checks that a machine which stays gives away nothing of its fair share, unless an operator has said which
// machine should have a partition.
func (m *machine) checkMoves(give []int) {
	if len(give) == 0 || m.leaving() || len(m.c.pins) > 0 {
		return
	}
	stay, held := 0, 0
	stand := m.member.Snapshot()
	for _, n := range stand.Nodes {
		if n.Alive && !n.Leaving {
			stay++
		}
	}
	for _, p := range stand.Partitions {
		if p.Alive && p.Owner == m.id {
			held++
		}
	}
	if share := len(stand.Partitions) / max(stay, 1); held-len(give) < share {
		m.c.u.violate(Spread, core.RunID{}, "%s gives back %d of %d partitions; its share is %d", m.id, len(give), held,
			share)
	}
}

// leave takes the machine from the universe. Another one comes after a while.
func (m *machine) leave() {
	c := m.c
	m.gone = true
	c.up = slices.DeleteFunc(c.up, func(other *machine) bool { return other == m })
	away := c.span(time.Millisecond, 10*time.Minute)
	if c.u.noFaults {
		away = 0
	}
	c.u.after(away, "a machine comes", c.come)
}

// die kills the machine with everything that it runs.
func (m *machine) die(where string) {
	if m.gone {
		return
	}
	m.c.u.tracef("%s dies", m.id)
	m.leave()
	for _, p := range slices.Sorted(maps.Keys(m.nodes)) {
		n := m.nodes[p]
		if n == n.home.formerOwner {
			n.endFenced()
		} else {
			n.die(where)
		}
	}
}

// takeOver makes the machine take a partition, unless another one is faster or the database does not answer.
func (m *machine) takeOver(s *simPartition) {
	u := m.c.u
	if m.gone || m.nodes[s.number] != nil {
		return // it died when it opened another one
	}
	old := s.node
	u.nodeCount++
	n := newNode(u, s, m)
	s.node, m.nodes[s.number] = n, n
	sent := n.monotonic()
	if err := n.tryOpen(); err != nil {
		_ = n.p.Release(u.ctx)
		n.endFenced()
		s.node = old
		return
	}
	if !old.dead {
		if s.formerOwner != nil {
			s.formerOwner.endFenced()
		}
		s.formerOwner = old
		if old.frozen > u.now { // its workers are stopped, too
			m.c.paused++
			old.workers.standStill()
		}
	}
	n.tenure = n.p.Tenure(sent, u.now)
	n.watchLease()
	n.afterOpen()
}

// standStill ends work that does not go on when its process does.
func (w *workers) standStill() {
	w.leaveRemote()
	for _, tok := range w.tokens() {
		w.tasks[tok].end()
	}
}

// reaches returns an error if the machine does not reach the database.
func (m *machine) reaches() error {
	if now := m.c.u.now; now < m.cut || now < m.c.down {
		return errDisk
	}
	return nil
}

func (m *machine) Now(context.Context) (time.Time, error) { return m.c.u.now.Std(), m.reaches() }

// Stores implements cluster.Storage: there is one database.
func (m *machine) Stores() cluster.Stores { return nil }

func (m *machine) Beat(_ context.Context, n cluster.Node) error {
	if err := m.reaches(); err != nil {
		return err
	}
	n.Leaving = m.c.table[n.ID].node.Leaving
	m.c.table[n.ID] = machineRow{n, m.c.u.now}
	return nil
}

func (m *machine) Snapshot(context.Context) (s cluster.Snapshot, err error) {
	if err := m.reaches(); err != nil {
		return s, err
	}
	for _, id := range slices.Sorted(maps.Keys(m.c.table)) {
		row := m.c.table[id]
		row.node.Alive = m.c.u.now < row.beat.Add(m.c.term)
		s.Nodes = append(s.Nodes, row.node)
	}
	for p := range m.c.u.partitions {
		owner, alive := m.c.u.disk.Holder(p)
		s.Partitions = append(s.Partitions, cluster.Partition{Owner: owner, Alive: alive, Pin: m.c.pins[p]})
	}
	return s, nil
}

func (m *machine) Ask(_ context.Context, id string, leave bool) (bool, error) {
	row, ok := m.c.table[id]
	if ok {
		row.node.Leaving = leave
		m.c.table[id] = row
	}
	return ok, m.reaches()
}

func (m *machine) Pin(_ context.Context, p int, id string) (bool, error) {
	_, ok := m.c.table[id]
	if ok {
		m.c.pins[p] = id
	}
	return ok, m.reaches()
}

func (m *machine) Unpin(_ context.Context, p int) (bool, error) {
	_, ok := m.c.pins[p]
	delete(m.c.pins, p)
	return ok, m.reaches()
}

func (m *machine) Remove(_ context.Context, id string) error {
	delete(m.c.table, id)
	maps.DeleteFunc(m.c.pins, func(_ int, pin string) bool { return pin == id })
	return nil
}

// Take implements cluster.Partitions. The partition is taken at the end of the round.
func (m *machine) Take(_ context.Context, p int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.take = append(m.take, p)
	return nil
}

// Give implements cluster.Partitions. The partition is given back at the end of the round.
func (m *machine) Give(p int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.give = append(m.give, p)
	return nil
}

func (m *machine) Owned() []int { return slices.Sorted(maps.Keys(m.nodes)) }

// reached is the journal as a node of a machine reaches it.
type reached struct {
	journal.Journal
	m     *machine
	epoch uint64 // the epoch of the lease
}

func (r *reached) Acquire(ctx context.Context, p int, owner string) (journal.Lease, error) {
	if err := r.m.reaches(); err != nil {
		return journal.Lease{}, err
	}
	l, err := r.Journal.Acquire(ctx, p, owner)
	r.epoch = l.Epoch
	return l, err
}

func (r *reached) Renew(ctx context.Context, p int, epoch uint64) (journal.Lease, error) {
	if err := r.m.reaches(); err != nil {
		return journal.Lease{}, err
	}
	return r.Journal.Renew(ctx, p, epoch)
}

func (r *reached) Release(ctx context.Context, p int, epoch uint64) error {
	if err := r.m.reaches(); err != nil {
		return err
	}
	return r.Journal.Release(ctx, p, epoch)
}

// Append implements journal.Journal. Batches that were on their way when the database was lost may be stored, or not.
func (r *reached) Append(ctx context.Context, b *journal.Batch) error {
	if err := r.m.reaches(); err != nil {
		if r.m.c.chance(0.5) {
			_ = r.Journal.Append(ctx, b)
		}
		return err
	}
	return r.Journal.Append(ctx, b)
}

func (r *reached) Inbox(ctx context.Context, p int, after map[int]uint64, limit int) ([]journal.Message, error) {
	if err := r.m.reaches(); err != nil {
		return nil, err
	}
	return r.Journal.Inbox(ctx, p, after, limit)
}
