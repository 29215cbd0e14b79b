package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// standbyless is a server whose synchronous standby is gone, or not, as the test wishes.
type standbyless struct {
	*testing.T
	conn *pgx.Conn
}

func newStandbyless(t *testing.T, dsn string) *standbyless {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return &standbyless{t, conn}
}

func (s *standbyless) sql(text string) (n int64) {
	s.Helper()
	tag, err := s.conn.Exec(s.Context(), text)
	if err != nil {
		s.Fatal(err)
	}
	return tag.RowsAffected()
}

// need makes commits wait for a standby, or not any more. It takes a moment.
func (s *standbyless) need(names string) {
	s.Helper()
	s.sql("ALTER SYSTEM SET synchronous_standby_names = '" + names + "'")
	s.sql("SELECT pg_reload_conf()")
}

// visible appends until an append waits for the standby, and ends the server's process that waits, as a crash does.
// What it has committed can be seen from then on. visible returns the error of that append.
func (s *standbyless) visible(appends func() error) error {
	s.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		appended := make(chan error, 1)
		go func() { appended <- appends() }()
		for cut, done := int64(0), false; !done; {
			select {
			case err := <-appended:
				if done = true; cut > 0 {
					return err
				}
			default:
				cut += s.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'" +
					" AND query LIKE '%INSERT%'")
			}
		}
	}
	s.Fatal("no append waits for the standby")
	return nil
}

// TestNotReplicated checks that a commit that the synchronous standby does not have can be seen when the server's
// process that waited for the standby is gone. The append does not take it for written then: a failover would lose it.
func TestNotReplicated(t *testing.T) {
	t.Parallel()
	server := pgtest.StartServer(t)
	l := newLine(t, opened(t, with(t, own(t, server.DSN()), "statement_timeout", "3s")))
	s := newStandbyless(t, server.DSN())
	s.need("gone")
	lost := ""
	err := s.visible(func() error { lost = fmt.Sprint(l.lease.Last); return l.append(lost) })
	if err == nil || errors.Is(err, journal.ErrFenced) {
		t.Errorf("a batch that the standby does not have: %v", err)
	}
	if all := texts(t, l.j); all[len(all)-1] != lost {
		t.Fatalf("the journal has %q, not %q", all, lost)
	}

	s.need("")
	stand, err := l.j.Renew(t.Context(), 0, l.lease.Epoch)
	if err != nil || fmt.Sprint(stand.Last-1) != lost {
		t.Fatalf("the partition stands at %d, %v", stand.Last, err)
	}
	l.lease.Last = stand.Last
	if err := l.append("next"); err != nil {
		t.Error(err)
	}
}

// TestMessageNotReplicated checks that a message that its store may lose is not taken in another one, where the effect
// would be without its cause, and the next message with this number would be passed over.
func TestMessageNotReplicated(t *testing.T) {
	nightly.Only(t, "it waits for timeouts of the server")
	second := pgtest.StartServer(t).DSN()
	dsn, _ := added(t, pgtest.Start(t), second)
	j := opened(t, with(t, with(t, dsn, "statement_timeout", "3s"), "lease", "8s")) // another store has a quarter of it
	err := j.Place(t.Context(), 1, "b")
	if err == nil {
		err = j.Switch(t.Context(), 1, "mover")
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := j.Acquire(t.Context(), 1, "owner")
	if err != nil {
		t.Fatal(err)
	}
	s := newStandbyless(t, second)
	s.need("gone")
	err = s.visible(func() error {
		l.Last++
		m := journal.Message{From: 1, To: 0, Seq: journal.MessageSeq(l.Last, 0), Encoded: []byte("hello")}
		return j.Append(t.Context(), &journal.Batch{
			Partition: 1, Epoch: l.Epoch, Seq: l.Last, Out: []journal.Message{m},
		})
	})
	if err == nil {
		t.Error("a batch that the standby does not have was appended")
	}
	in, err := j.Inbox(t.Context(), 0, nil, 10)
	if err != nil || len(in) != 0 {
		t.Errorf("messages that the standby does not have: %+v, %v", in, err)
	}
	s.need("")
	for end := time.Now().Add(30 * time.Second); len(in) == 0 && time.Now().Before(end); {
		if in, err = j.Inbox(t.Context(), 0, nil, 10); err != nil {
			t.Fatal(err)
		}
	}
	if len(in) == 0 || in[len(in)-1].Seq != journal.MessageSeq(l.Last, 0) {
		t.Errorf("messages later: %+v", in)
	}
}
