package postgres

import (
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// pair is a primary and the standby that has replaced it. The old primary has come back, and takes writes.
type pair struct {
	*testing.T
	old, now *pgtest.Server
}

// promoted makes a pair. seed writes what both have.
func promoted(t *testing.T, seed func(primary string)) pair {
	t.Helper()
	p := pair{T: t, old: pgtest.StartServer(t, "-c", "synchronous_standby_names=walreceiver")}
	p.now = p.old.Standby("-c", "synchronous_standby_names=")
	seed(p.old.DSN())
	p.old.Kill()
	p.now.Promote()
	return p
}

// back starts the old primary again.
func (p pair) back() {
	p.Helper()
	p.old.Set("-c", "synchronous_standby_names=")
	p.old.Replace(p.old)
}

// hosts returns the address of several servers, the first of which is tried first.
func hosts(t *testing.T, all ...*pgtest.Server) string {
	t.Helper()
	var at []string
	var first *url.URL
	for _, s := range all {
		u, err := url.Parse(s.DSN())
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, u.Host)
		if first == nil {
			first = u
		}
	}
	user, rest, _ := strings.Cut(first.String(), first.Host)
	return with(t, user+strings.Join(at, ",")+rest, "target_session_attrs", "read-write", "lease", "1h",
		"partitions", "3")
}

// write takes a partition and appends a batch.
func write(t *testing.T, j journal.Journal, partition int) (journal.Lease, error) {
	t.Helper()
	l, err := j.Acquire(t.Context(), partition, "node")
	if err == nil {
		l.Last++
		err = j.Append(t.Context(), &journal.Batch{
			Partition: partition, Epoch: l.Epoch, Seq: l.Last, Entries: []core.Entry{entry("batch")},
		})
	}
	return l, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openSeen(t *testing.T, dsn, file string) (*stores, error) {
	t.Helper()
	j, err := OpenSeen(t.Context(), dsn, file)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = j.Close() })
	return j.(*stores), nil
}

// TestOldPrimary checks that a node which is started again does not take the old primary, which has come back and
// stands first in the address: it knows what it has seen from its file, or from another node.
func TestOldPrimary(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "seen.json")
	p := promoted(t, func(dsn string) {
		j, err := openSeen(t, with(t, dsn, "lease", "1h", "partitions", "3"), file)
		must(t, err)
		for n := range 3 {
			l, err := write(t, j, n)
			must(t, err)
			must(t, j.Release(t.Context(), n, l.Epoch))
		}
		must(t, j.Close())
	})
	j, err := openSeen(t, hosts(t, p.old, p.now), file)
	must(t, err)
	l, err := write(t, j, 1)
	must(t, err)
	must(t, j.Release(t.Context(), 1, l.Epoch))
	seen := j.Seen()
	must(t, j.Close())
	if at := seen.Primaries[""]; at.Timeline != 2 || seen.Partitions[1].Last != 2 {
		t.Fatalf("seen: %+v", seen)
	}
	p.back()

	again, err := openSeen(t, hosts(t, p.old, p.now), file)
	must(t, err)
	for n := range 3 {
		l, err := write(t, again, n)
		if want := map[int]uint64{0: 2, 1: 3, 2: 2}[n]; err != nil || l.Last != want {
			t.Errorf("partition %d: batch %d, %v", n, l.Last, err)
		}
	}
	alone := with(t, p.old.DSN(), "lease", "1h", "partitions", "3")
	refuses(t, "the old primary alone", func() error { _, err := openSeen(t, alone, file); return err }(),
		journal.ErrBehind, "batch 1, 2 was seen): it is another primary or a "+
			"restored copy; stop all nodes, then pawl cluster accept")

	// Without the file, another node tells.
	told, err := openSeen(t, alone, "")
	must(t, err)
	told.Learn(again.Seen())
	refuses(t, "what another node has seen", told.Verify(t.Context()), journal.ErrBehind, "this database went back")
	_, err = write(t, told, 2)
	refuses(t, "a partition", err, journal.ErrBehind, "this database went back")
	_, err = told.ReadDocuments(t.Context(), "any")
	refuses(t, "a document", err, journal.ErrBehind, "this database went back")
	refuses(t, "a sign of life", told.change(t.Context(), "beat", removeText, nil, "x"), journal.ErrBehind,
		"this database went back")
}

// TestPoolerTurned checks a pooler that leads to the old primary for a while: nothing is written or read there, and the
// node goes on where it was when the pooler is turned back.
func TestPoolerTurned(t *testing.T) {
	t.Parallel()
	var bouncer *pgtest.Bouncer
	var j *stores
	var l journal.Lease
	appended := func() error {
		next := &journal.Batch{Epoch: l.Epoch, Seq: l.Last + 1, Entries: []core.Entry{entry("batch")}}
		err := j.Append(t.Context(), next)
		if err == nil {
			l.Last++
		}
		return err
	}
	p := promoted(t, func(dsn string) {
		bouncer = pgtest.NewBouncer(t, dsn)
		j = opened(t, with(t, bouncer.DSN(), "lease", "1h", "partitions", "3"))
		var err error
		l, err = j.Acquire(t.Context(), 0, "node")
		must(t, err)
		must(t, appended())
	})
	bouncer.Turn(p.now.DSN())
	for end := time.Now().Add(time.Minute); ; { // the pooler tries the new server once a second
		err := appended()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after the promotion: %v", err)
		}
		if s, err := j.Renew(t.Context(), 0, l.Epoch); err == nil {
			l.Last = s.Last
		}
	}
	p.back()
	bouncer.Turn(p.old.DSN())
	for end := time.Now().Add(time.Minute); ; {
		err := appended()
		if errors.Is(err, journal.ErrBehind) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the pooler was turned to the old primary: %v", err)
		}
	}
	_, err := j.Renew(t.Context(), 0, l.Epoch)
	refuses(t, "renew", err, journal.ErrBehind, "this database went back")
	_, err = j.Acquire(t.Context(), 1, "node")
	refuses(t, "acquire", err, journal.ErrBehind, "this database went back")
	_, err = j.ReadDocuments(t.Context(), "any")
	refuses(t, "read", err, journal.ErrBehind, "this database went back")
	err = j.PutDocuments(t.Context(), journal.Document{Key: "any", Value: []byte("1")})
	refuses(t, "put", err, journal.ErrBehind, "this database went back")
	old := opened(t, with(t, p.old.DSN(), "lease", "1h", "partitions", "3"))
	if all, err := old.Stands(t.Context()); err != nil || all.Partitions[0].Last > 1 {
		t.Errorf("the old primary has %+v, %v", all, err)
	}
	if d, err := old.ReadDocuments(t.Context(), "any"); err != nil || len(d) > 0 {
		t.Errorf("the old primary has the document %+v, %v", d, err)
	}

	bouncer.Turn(p.now.DSN())
	for end := time.Now().Add(time.Minute); ; {
		if err = appended(); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("turned back: %v", err)
		}
	}
}

// TestRestoredWhileOpen checks a server that was restored to an earlier point, at the same address and with the same
// name, while nodes are alive: as from a snapshot of its disk.
func TestRestoredWhileOpen(t *testing.T) {
	t.Parallel()
	server := pgtest.StartServer(t)
	dsn := with(t, server.DSN(), "lease", "1h", "partitions", "3")
	j, err := openSeen(t, dsn, "")
	must(t, err)
	l, err := write(t, j, 0)
	must(t, err)
	copied := server.Copy()
	l.Last++
	must(t, j.Append(t.Context(), &journal.Batch{Epoch: l.Epoch, Seq: l.Last, Entries: []core.Entry{entry("more")}}))
	server.Kill()
	copied.Replace(server)
	err = j.Append(t.Context(), &journal.Batch{Epoch: l.Epoch, Seq: l.Last + 1, Entries: []core.Entry{entry("next")}})
	refuses(t, "append", err, journal.ErrBehind, "(partition 0: batch 1, 2 was seen)")
	_, err = j.Renew(t.Context(), 0, l.Epoch)
	refuses(t, "renew", err, journal.ErrBehind, "(partition 0: batch 1, 2 was seen)")
	_, err = j.Inbox(t.Context(), 0, nil, 1)
	refuses(t, "read", err, journal.ErrBehind, "(partition 0: batch 1, 2 was seen)")

	// An operator accepts it.
	operator, err := openSeen(t, dsn, "")
	must(t, err)
	g, err := operator.Accept(t.Context())
	if err != nil || g.Number != 1 {
		t.Fatalf("accepted: %+v, %v", g, err)
	}
	must(t, j.Verify(t.Context()))
	if got := j.Seen(); got.Generation != g || got.Partitions[0].Last > 1 {
		t.Errorf("seen after the acceptance: %+v", got)
	}
	if _, err := j.Renew(t.Context(), 0, l.Epoch); err != nil {
		t.Errorf("renew after the acceptance: %v", err)
	}
}
