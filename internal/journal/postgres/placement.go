package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/journal"
)

// storeName matches the names of stores. A name is part of a variable of the environment.
var storeName = regexp.MustCompile("^[a-z][a-z0-9_]{0,30}$")

// A store that does not keep a partition has leased it, for a hundred years, to the one that keeps it. So it cannot be
// acquired there by an old map.
const (
	awayPrefix = "moved to store "
	awayTerm   = 100 * 365 * 24 * time.Hour
)

// isAway reports whether the owner in a partition's row is another store.
func isAway(owner string) bool {
	return len(owner) > len(awayPrefix) && owner[:len(awayPrefix)] == awayPrefix
}

const (
	// emptyText reports whether a schema was never used.
	emptyText = "SELECT NOT EXISTS (SELECT 1 FROM {schema}.partitions)" +
		" AND NOT EXISTS (SELECT 1 FROM {schema}.documents)" +
		" AND NOT EXISTS (SELECT 1 FROM {schema}.nodes)"
	// claimText makes a schema a store that keeps nothing yet.
	claimText = "WITH own AS (INSERT INTO {schema}.meta (key, value) VALUES ('store', $1) RETURNING 1)" +
		" INSERT INTO {schema}.partitions (partition, epoch, owner, until, term, last, through, mark)" +
		" SELECT n, 0, $2, clock_timestamp() + $3 * interval '1 microsecond', $3, 0, 0, 0" +
		" FROM own, generate_series(0, $4::int - 1) AS n"
	storeText = "INSERT INTO {schema}.stores (name, address, since) VALUES ($1, $2, clock_timestamp())" +
		" ON CONFLICT (name) DO UPDATE SET address = excluded.address"
	// placeText also makes sure that the store is not removed meanwhile.
	placeText = "INSERT INTO {schema}.placements AS p (partition, store, target)" +
		" SELECT $1::int, '', nullif($2::text, '') FROM {from}" +
		" ON CONFLICT (partition) DO UPDATE SET target = nullif($2::text, p.store) RETURNING 1"
	fromNew   = "(SELECT 1 FROM {schema}.stores WHERE name = $2::text FOR KEY SHARE) AS there"
	fromFirst = "(SELECT 1) AS there"
)

func (s *stores) AddStore(ctx context.Context, name, address string) error {
	if err := s.usable(true); err != nil {
		return err
	}
	if err := checkStore(name, address); err != nil {
		return err
	}
	o, err := s.connectOther(ctx, name, address)
	if err != nil {
		return unfit("%v", err)
	}
	defer o.pool.Close()
	if err := s.claim(ctx, o); err != nil {
		return err
	}
	if err := shareDefinitions(ctx, s.storage, o); err != nil {
		return err
	}
	if err := s.change(ctx, "add a store", storeText, nil, name, address); err != nil {
		return err
	}
	return s.readMap(ctx)
}

func unfit(format string, args ...any) error {
	return &cluster.RefusedError{Text: fmt.Sprintf(format, args...)}
}

// checkStore refuses names and addresses that cannot be stored.
func checkStore(name, address string) error {
	if !storeName.MatchString(name) || name == nameOfFirst {
		return unfit("the name of a store is at most 31 lower-case letters, digits and _, and %q is the one that has"+
			" the map: %q cannot be one", nameOfFirst, name)
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil //nolint:nilerr // whoever connects says what is wrong with it
	}
	_, with := u.User.Password()
	if q := u.Query(); with || q.Has("password") || q.Has("sslpassword") {
		return unfit("leave the password out of the address, which all who read the "+
			"database see: give it to each node in %s, or in ~/.pgpass", cluster.PasswordOf(name))
	}
	return nil
}

// claim makes the tables of a store if there are none, and notes in them to whom it belongs.
func (s *stores) claim(ctx context.Context, o *storage) error {
	st, err := o.look(ctx)
	of, database := "", ""
	if err == nil && st.tables {
		of, database, err = o.belongs(ctx)
	}
	switch {
	case err != nil && errors.Is(err, journal.ErrNoJournal), err != nil && errors.Is(err, journal.ErrNewer):
		return unfit("%v", err)
	case err != nil:
		return unfit("%v", o.wrap("open", err))
	case of == o.belongsTo: // it was added before, perhaps at another address, and may have been removed
		return o.change(ctx, "add a store", againText, nil, int64(removedEpoch))
	case of != "":
		return unfit("%s is the store of another cluster, or has another name there: give this one a schema of its"+
			" own with ?schema=NAME", o.name)
	case database != "" && database == s.database:
		return unfit("%s is the first database itself: name another one", o.name)
	}
	empty := true
	if err = o.prepare(ctx, s.count); err == nil {
		err = o.read(ctx, "open", o.in(emptyText), nil, func() {}, func(r pgx.Rows) error { return r.Scan(&empty) })
	}
	if err != nil {
		return unfit("%v", o.wrap("open", err))
	}
	if !empty {
		return unfit("%s is a database of its own, with runs: give the store a schema of its own with ?schema=NAME",
			o.name)
	}
	return o.change(ctx, "add a store", claimText, nil, o.belongsTo, awayPrefix+nameOfFirst, awayTerm.Microseconds(),
		s.count)
}

func (s *stores) Place(ctx context.Context, partition int, store string) error {
	if err := s.ready(ctx, partition); err != nil {
		return err
	}
	from, there := fromNew, false
	if store == nameOfFirst {
		store, from = "", fromFirst
	}
	err := s.change(ctx, "move", strings.Replace(placeText, "{from}", from, 1), &there, partition, store)
	if err == nil && !there {
		err = fmt.Errorf("journal: move partition %d: the store %s was removed", partition, store)
	}
	if err != nil {
		return err
	}
	return s.readMap(ctx)
}

// shareDefinitions brings the definitions of one store to another one.
func shareDefinitions(ctx context.Context, from, to *storage) error {
	known := newUUIDs(0)
	err := to.read(ctx, "definitions", to.in("SELECT id FROM {schema}.definitions"), nil,
		func() { known = newUUIDs(0) }, func(r pgx.Rows) error {
			var id [16]byte
			err := r.Scan(&id)
			known = append(known, id)
			return err
		})
	if err != nil {
		return err
	}
	var missing []journal.Definition
	err = from.read(ctx, "definitions", from.in("SELECT id, kind, name, source FROM {schema}.definitions"+
		" WHERE id <> ALL ($1)"), []any{known}, func() { missing = nil }, func(r pgx.Rows) error {
		var d journal.Definition
		err := r.Scan((*[16]byte)(&d.ID), &d.Kind, &d.Name, &d.Source)
		d.Kind, d.Name = original(d.Kind), original(d.Name)
		missing = append(missing, d)
		return err
	})
	if err != nil {
		return err
	}
	return to.wrap("definitions", to.define(ctx, missing))
}
