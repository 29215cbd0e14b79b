package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/journal"
)

// stores is a journal whose partitions are kept by one or more databases. The first one, whose address all processes
// have, also keeps what belongs to no partition, and the map of the others. All data of a partition is in one store:
// its batches and runs, the messages that it has sent, and those that it has taken.
type stores struct {
	*storage        // the first one
	database string // its id
	layout   atomic.Pointer[layout]
	reached  atomic.Pointer[string] // the names of the other stores that answered last, for the node

	reading sync.Mutex // the lock for reading the map
	mu      sync.Mutex
	others  map[string]*storage // the stores by name and address; nil: the journal is closed
}

// layout is the map that was read last.
type layout struct {
	all     []*storage // the first one first, the others by name
	places  []int      // the store of each partition
	targets []int      // where it should be; differs from places while it moves
	keeps   [][]int32  // the partitions of each store; nil if there is one store, and it keeps all
	read    time.Time
}

// nameOfFirst is the users' name of the first database.
const nameOfFirst = "first"

// mapText reads the map in one statement, so that it is of one moment.
const mapText = "SELECT name, address, -1, NULL FROM {schema}.stores" +
	" UNION ALL SELECT store, '', partition, target FROM {schema}.placements ORDER BY 3, 1"

// withStores returns the journal of a first database with its other stores.
func (s *storage) withStores(ctx context.Context) (*stores, error) {
	of, database, err := s.belongs(ctx)
	if err != nil {
		return nil, err
	}
	if of != "" {
		_, name, _ := strings.Cut(of, "/")
		return nil, fmt.Errorf("%w: %s is the store %s of a cluster: name the first database of the cluster",
			journal.ErrNoJournal, s.name, name)
	}
	all := &stores{storage: s, database: database, others: map[string]*storage{}}
	all.reached.Store(new(string))
	return all, all.readMap(ctx)
}

// readMap reads the map. New stores in it are connected when they are used.
func (s *stores) readMap(ctx context.Context) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	return s.load(ctx)
}

// load reads the map. It is called with reading held.
func (s *stores) load(ctx context.Context) error {
	type placed struct {
		partition     int
		store, target string
	}
	var names, addresses []string
	var rows []placed
	begin := func() { names, addresses, rows = nil, nil, nil }
	err := s.storage.read(ctx, "stores", s.in(mapText), nil, begin, func(r pgx.Rows) error {
		var name, address string
		var target *string
		var partition int
		if err := r.Scan(&name, &address, &partition, &target); err != nil {
			return err
		}
		switch {
		case partition < 0:
			names, addresses = append(names, name), append(addresses, address)
		case partition < s.count:
			row := placed{partition, name, name}
			if target != nil {
				row.target = *target
			}
			rows = append(rows, row)
		}
		return nil
	})
	if err != nil {
		return err
	}
	l := &layout{all: []*storage{s.storage}, places: make([]int, s.count), targets: make([]int, s.count)}
	for i, name := range names {
		other, err := s.other(ctx, name, addresses[i])
		if err != nil {
			return err
		}
		l.all = append(l.all, other)
	}
	for _, row := range rows {
		var known, wanted bool
		l.places[row.partition], known = l.index(row.store)
		l.targets[row.partition], wanted = l.index(row.target)
		if !known || !wanted {
			return fmt.Errorf("%w: %s: the map of stores names one that it does not have: %q", journal.ErrNoJournal,
				s.name, row.store)
		}
	}
	l.keepAll()
	l.read = time.Now()
	s.layout.Store(l)
	return nil
}

// index finds a store by its name.
func (l *layout) index(id string) (int, bool) {
	i := slices.IndexFunc(l.all, func(s *storage) bool { return s.id == id })
	return max(i, 0), i >= 0
}

// keepAll returns which partitions each store keeps.
func (l *layout) keepAll() {
	if len(l.all) == 1 {
		l.keeps = make([][]int32, 1)
		return
	}
	for range l.all {
		l.keeps = append(l.keeps, []int32{}) // not nil: it may keep none
	}
	for p, at := range l.places {
		l.keeps[at] = append(l.keeps[at], int32(p))
	}
}

// fresh returns the map, which is read again if it is older than a lease. If it cannot be read, or is already being
// read, the old one is good enough: a writer is refused where it is wrong, and rows that were moved away stay for
// longer than a map is used.
func (s *stores) fresh(ctx context.Context) *layout {
	l := s.layout.Load()
	if time.Since(l.read) < s.lease || !s.reading.TryLock() {
		return l
	}
	defer s.reading.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.short()) // other callers need it, too
	defer cancel()
	if err := s.load(ctx); err != nil {
		again := *s.layout.Load() // it is tried again, but not at once
		again.read = time.Now()
		s.layout.Store(&again)
	}
	return s.layout.Load()
}

// short returns how long a statement may take that others should not wait for.
func (s *stores) short() time.Duration { return max(s.lease/4, shortest) }

// other returns a store of the map.
func (s *stores) other(ctx context.Context, name, address string) (*storage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := name + " " + address // it may get another address
	if o := s.others[key]; o != nil {
		return o, nil
	}
	if s.others == nil {
		return nil, errClosed
	}
	o, err := s.connectOther(ctx, name, address)
	if err == nil {
		s.others[key] = o
	}
	return o, err
}

// connectOther prepares the connections to a store. It makes none yet.
func (s *stores) connectOther(ctx context.Context, name, address string) (*storage, error) {
	p, err := parse(address)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", name, err)
	}
	if password := os.Getenv(cluster.PasswordOf(name)); password != "" {
		p.pool.ConnConfig.Password = password
	}
	p.name, p.lease, p.timeout = fmt.Sprintf("store %s (%s)", name, p.name), s.lease, s.timeout
	o, err := connectTo(ctx, p)
	if err != nil {
		return nil, err
	}
	o.first, o.id, o.address, o.readOnly, o.count = s.storage, name, address, s.readOnly, s.count
	o.belongsTo = s.database + "/" + name
	return o, nil
}

// belongsText returns the cluster of which a database is a store, and its own id.
const belongsText = "SELECT coalesce(max(value) FILTER (WHERE key = 'store'), '')," +
	" coalesce(max(value) FILTER (WHERE key = 'database'), '') FROM {schema}.meta"

// belongs reads that.
func (s *storage) belongs(ctx context.Context) (of, database string, err error) {
	err = s.again(ctx, func(ctx context.Context) error {
		return s.query(ctx, s.in(belongsText), nil, func(r pgx.Rows) error { return r.Scan(&of, &database) })
	})
	return of, database, err
}

// begin looks at a store before its first use, and makes missing migrations.
func (s *storage) begin(ctx context.Context) error {
	if s.id == "" || s.begun.Load() {
		return nil
	}
	s.beginning.Lock()
	defer s.beginning.Unlock()
	if s.begun.Load() {
		return nil
	}
	st, err := s.look(ctx)
	of := ""
	if err == nil && st.tables {
		of, _, err = s.belongs(ctx)
	}
	if err == nil && of != s.belongsTo {
		err = fmt.Errorf("%s is no longer the store of this cluster: it was emptied, or belongs to another one; "+
			"restore a backup, or correct the address", s.name)
	}
	if err == nil && st.version < newest {
		if s.readOnly {
			return fmt.Errorf("the tables of %s are of an older version: start a server, which migrates them", s.name)
		}
		err = s.prepare(ctx, s.count)
	}
	if err != nil {
		return s.wrap("open", err)
	}
	s.begun.Store(true)
	return nil
}

// at returns the store that keeps a partition.
func (s *stores) at(ctx context.Context, partition int) (*storage, error) {
	l := s.fresh(ctx)
	if partition < 0 || partition >= len(l.places) {
		return s.storage, nil // which refuses it
	}
	at := l.all[l.places[partition]]
	return at, at.begin(ctx)
}

// each calls fn for all stores at once, and returns the first error in the order of the stores.
func (l *layout) each(ctx context.Context, fn func(i int, at *storage) error) error {
	if len(l.all) == 1 {
		if err := l.all[0].begin(ctx); err != nil {
			return err
		}
		return fn(0, l.all[0])
	}
	errs := make([]error, len(l.all))
	var all sync.WaitGroup
	for i, at := range l.all {
		all.Go(func() {
			if errs[i] = at.begin(ctx); errs[i] == nil {
				errs[i] = fn(i, at)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (s *stores) Close() error {
	s.mu.Lock()
	others := s.others
	s.others = nil
	s.mu.Unlock()
	errs := make([]error, 0, len(others)+1)
	for _, o := range others {
		errs = append(errs, o.Close())
	}
	return errors.Join(append(errs, s.storage.Close())...)
}
