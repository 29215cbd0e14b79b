package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/journaltest"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// line is an owner of partition 0 that appends one batch after the other.
type line struct {
	t     *testing.T
	j     journal.Journal
	lease journal.Lease
}

func newLine(t *testing.T, j journal.Journal) *line {
	t.Helper()
	l, err := j.Acquire(t.Context(), 0, "test")
	if err != nil {
		t.Fatal(err)
	}
	return &line{t, j, l}
}

func entry(text string) core.Entry {
	return core.Entry{Run: journaltest.RunID(1), At: 1, Records: []core.Record{core.SignalKept{Name: text, ID: "id"}}}
}

func (l *line) batch(text string) *journal.Batch {
	return &journal.Batch{Epoch: l.lease.Epoch, Seq: l.lease.Last + 1, Entries: []core.Entry{entry(text)}}
}

func (l *line) append(text string) error {
	err := l.j.Append(l.t.Context(), l.batch(text))
	if err == nil {
		l.lease.Last++
	}
	return err
}

// texts returns what the journal has, in order.
func texts(t *testing.T, j journal.Journal) (all []string) {
	t.Helper()
	err := j.Tail(t.Context(), 0, 0, func(seq uint64, entries []core.Entry) error {
		if int(seq) != len(all)+1 {
			t.Errorf("batch %d follows batch %d", seq, len(all))
		}
		for _, e := range entries {
			all = append(all, e.Records[0].(core.SignalKept).Name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the journal has %q, want %q", got, want)
	}
}

// TestLostAnswers checks that an append whose connection is cut is looked up. It is written once, whether the cut came
// before the statement or after it.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	dsn := own(t, server)
	proxy := pgtest.NewProxy(t, dsn)
	l := newLine(t, opened(t, proxy.DSN()))
	var want []string
	for n := range 12 {
		text := fmt.Sprint(n)
		switch n % 3 {
		case 1:
			proxy.LoseReply()
		case 2:
			proxy.LoseRequest()
		}
		if err := l.append(text); err != nil {
			t.Fatalf("append %d: %v", n, err)
		}
		want = append(want, text)
	}
	same(t, texts(t, l.j), want...)

	// The lease is looked up, too.
	if err := l.j.Release(t.Context(), 0, l.lease.Epoch); err != nil {
		t.Fatal(err)
	}
	proxy.LoseReply()
	l = newLine(t, l.j)
	proxy.LoseReply()
	if _, err := l.j.Renew(t.Context(), 0, l.lease.Epoch); err != nil {
		t.Error(err)
	}
	proxy.LoseReply()
	if err := l.j.Release(t.Context(), 0, l.lease.Epoch); err != nil {
		t.Error(err)
	}
	newLine(t, l.j)
}

// TestLateAppend checks that a statement that reaches the database after its append was tried again changes nothing.
func TestLateAppend(t *testing.T) {
	server := pgtest.Start(t)
	proxy := pgtest.NewProxy(t, own(t, server))
	l := newLine(t, opened(t, proxy.DSN()))
	for n, next := range []func(){
		func() {},
		func() {
			if err := l.append("next"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		proxy.Delay()
		if err := l.append(fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
		next()
		proxy.Deliver()
		if err := l.append("after"); err != nil {
			t.Fatal(err)
		}
	}
	same(t, texts(t, l.j), "0", "after", "1", "next", "after")
}

// TestUnreachable checks that, while the database cannot be reached, an append fails and says that it is in doubt, and
// a read says that it may be asked again. Later the owner looks where its partition stands, and goes on.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	proxy := pgtest.NewProxy(t, own(t, server))
	l := newLine(t, opened(t, with(t, proxy.DSN(), "statement_timeout", "1s")))
	if err := l.append("a"); err != nil {
		t.Fatal(err)
	}
	proxy.Hold()
	err := l.append("b")
	if err == nil || !strings.Contains(err.Error(), "the answer to batch 2 of partition 0 was lost") {
		t.Fatalf("append without an answer: %v", err)
	}
	for _, certain := range []error{journal.ErrFull, journal.ErrReadOnly, journal.ErrFenced, journal.ErrLost} {
		if errors.Is(err, certain) {
			t.Errorf("an append without an answer is %v", certain)
		}
	}
	if _, err := l.j.Renew(t.Context(), 0, l.lease.Epoch); err == nil || errors.Is(err, journal.ErrNoAnswer) {
		t.Errorf("renewed without an answer: %v", err)
	}
	if _, err := l.j.List(t.Context(), journal.Query{Limit: 1}); !errors.Is(err, journal.ErrNoAnswer) {
		t.Errorf("a list without an answer: %v", err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := l.j.List(gone, journal.Query{Limit: 1}); err == nil || errors.Is(err, journal.ErrNoAnswer) {
		t.Errorf("a list for somebody who has gone: %v", err)
	}
	proxy.Release() // the held request arrives now, and may be carried out
	now, err := l.j.Renew(t.Context(), 0, l.lease.Epoch)
	if err != nil {
		t.Fatal(err)
	}
	for l.lease = now; l.append("c") != nil; { // the loop ends when the held request is carried out
		if l.lease, err = l.j.Renew(t.Context(), 0, l.lease.Epoch); err != nil {
			t.Fatal(err)
		}
	}
	if got := texts(t, l.j); !slices.Equal(got, []string{"a", "c"}) && !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("the journal has %q", got)
	}
}

// TestFencedWhileInDoubt checks that an owner that was replaced while the answer of its append was lost learns that it
// was.
func TestFencedWhileInDoubt(t *testing.T) {
	server := pgtest.Start(t)
	dsn := own(t, server)
	proxy := pgtest.NewProxy(t, dsn)
	old := newLine(t, opened(t, with(t, proxy.DSN(), "statement_timeout", "1s")))
	if err := old.append("a"); err != nil {
		t.Fatal(err)
	}
	proxy.Delay()
	late := old.batch("late")
	done := make(chan error)
	proxy.Hold() // the first try is kept, the next ones are held
	go func() { done <- old.j.Append(t.Context(), late) }()
	if err := <-done; err == nil {
		t.Fatal("appended without an answer")
	}
	execute(t, dsn, opened(t, dsn).in("UPDATE {schema}.partitions SET until = clock_timestamp()"))
	next := newLine(t, opened(t, dsn))
	if err := next.append("b"); err != nil {
		t.Fatal(err)
	}
	proxy.Release()
	late.Seq = next.lease.Last + 1
	if err := old.j.Append(t.Context(), late); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("the old owner's append: %v", err)
	}
	if _, err := old.j.Renew(t.Context(), 0, old.lease.Epoch); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("the old owner's renewal: %v", err)
	}
	got := texts(t, next.j)
	if !slices.Equal(got, []string{"a", "b"}) && !slices.Equal(got, []string{"a", "late", "b"}) {
		t.Errorf("the journal has %q", got)
	}
}

// TestAcquiredTwice checks that a partition stays with who has taken it when the statement that took it, sent twice, is
// carried out a second time.
func TestAcquiredTwice(t *testing.T) {
	t.Parallel()
	j := opened(t, own(t, pgtest.Start(t)))
	l, err := j.Acquire(t.Context(), 0, "test")
	if err != nil {
		t.Fatal(err)
	}
	late := []any{0, "test", int64(60_000_000), int64(j.mark.Load()), "", int64(0), int64(0)}
	ignored := func(pgx.Rows) error { return nil }
	if err := j.query(t.Context(), j.in(acquireText), late, ignored); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Renew(t.Context(), 0, l.Epoch); err != nil {
		t.Error(err)
	}
	b := &journal.Batch{Epoch: l.Epoch, Seq: l.Last + 1, Entries: []core.Entry{entry("first")}}
	if err := j.Append(t.Context(), b); err != nil {
		t.Error(err)
	}
}

// TestCuts cuts connections at random while several partitions append. What was acknowledged is there once, in order.
func TestCuts(t *testing.T) {
	server := pgtest.Start(t)
	proxy := pgtest.NewProxy(t, own(t, server))
	j := opened(t, proxy.DSN())
	stop := make(chan struct{})
	var cutter, owners sync.WaitGroup
	cutter.Go(func() {
		for r := rand.New(rand.NewPCG(1, 2)); ; { //nolint:gosec // it need not be secret
			select {
			case <-stop:
				return
			default:
			}
			[]func(){proxy.Cut, proxy.LoseReply, proxy.LoseRequest, func() {}}[r.IntN(4)]()
			if _, err := j.Partitions(t.Context()); err != nil { // it takes the next cut, or some append does
				t.Log(err)
			}
		}
	})
	for p := range 3 {
		owners.Go(func() { appendThroughCuts(t, j, p) })
	}
	owners.Wait()
	close(stop)
	cutter.Wait()
}

func appendThroughCuts(t *testing.T, j journal.Journal, partition int) {
	l, err := j.Acquire(t.Context(), partition, "test")
	if err != nil {
		t.Error(err)
		return
	}
	const batches = 150
	var want []string
	for n := range batches {
		text := fmt.Sprint(n)
		b := &journal.Batch{Partition: partition, Epoch: l.Epoch, Seq: l.Last + 1, Entries: []core.Entry{entry(text)}}
		if err := j.Append(t.Context(), b); err != nil {
			now, renewErr := j.Renew(t.Context(), partition, l.Epoch)
			if renewErr != nil {
				t.Errorf("append: %v, then renew: %v", err, renewErr)
				return
			}
			if now.Last == l.Last {
				continue // it was not written
			}
		}
		l.Last++
		want = append(want, text)
	}
	var got []string
	err = j.Tail(t.Context(), partition, 0, func(_ uint64, entries []core.Entry) error {
		for _, e := range entries {
			got = append(got, e.Records[0].(core.SignalKept).Name)
		}
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("partition %d has %q, want %q: %v", partition, got, want, err)
	}
	if len(want) < batches/2 {
		t.Errorf("only %d of %d appends succeeded: the journal does not try again", len(want), batches)
	}
}

// TestRestart stops the server without ado, as a crash does. An owner goes on where it was.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := pgtest.StartServer(t)
	l := newLine(t, opened(t, own(t, server.DSN())))
	var want []string
	for n := range 6 {
		text := fmt.Sprint(n)
		if err := l.append(text); err != nil {
			t.Fatalf("append %d: %v", n, err)
		}
		want = append(want, text)
		if n%2 == 1 {
			server.Restart("immediate")
		}
	}
	same(t, texts(t, l.j), want...)
}

// TestRestartWhileAppending stops the server while appends are on their way.
func TestRestartWhileAppending(t *testing.T) {
	t.Parallel()
	server := pgtest.StartServer(t)
	l := newLine(t, opened(t, own(t, server.DSN())))
	stop := make(chan struct{})
	done := make(chan []string)
	go func() {
		var want []string
		for n := 0; ; n++ {
			select {
			case <-stop:
				done <- want
				return
			default:
			}
			text := fmt.Sprint(n)
			if err := l.append(text); err == nil {
				want = append(want, text)
				continue
			}
			for {
				now, err := l.j.Renew(t.Context(), 0, l.lease.Epoch)
				if err != nil {
					continue // the server is not back yet
				}
				if now.Last != l.lease.Last {
					want = append(want, text)
				}
				l.lease = now
				break
			}
		}
	}()
	for range 3 {
		server.Restart("immediate")
	}
	close(stop)
	want := <-done
	same(t, texts(t, l.j), want...)
}
