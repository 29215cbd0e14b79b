package access

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/journal"
)

// silent are documents whose storage answers no read while it is away, whatever the caller's context says.
type silent struct {
	journal.Documents
	mu    sync.Mutex
	back  chan struct{} // closed when it answers; nil: it answers
	fault error         // it answers with this
	reads atomic.Int64
}

func (s *silent) FindDocuments(
	ctx context.Context, from, before string, last bool, limit int,
) ([]journal.Document, error) {
	s.reads.Add(1)
	s.mu.Lock()
	back, fault := s.back, s.fault
	s.mu.Unlock()
	if back != nil {
		<-back
	}
	if fault != nil {
		return nil, fault
	}
	return s.Documents.FindDocuments(ctx, from, before, last, limit)
}

// goAway makes the storage silent; the result makes it answer again.
func (s *silent) goAway() (comeBack func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back = make(chan struct{})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.back)
		s.back = nil
	}
}

// TestTokensWhileTheStorageIsSilent checks that everybody is answered within a second while the storage does not
// answer: a caller with a known token goes on for some minutes, others are told the reason. The storage is asked once
// a second, and the log shows begin and end.
func TestTokensWhileTheStorageIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, documents := newKeeper(t)
		var said bytes.Buffer
		s := &silent{Documents: documents}
		k := NewKeeper(s, wallClock, slog.New(slog.NewTextHandler(&said, nil)))
		defer func() { _ = k.Close() }()
		known := create(t, k, api.TokenRequest{Name: "ada", Role: api.RoleRead})
		<-time.After(time.Minute)
		comeBack, before := s.goAway(), s.reads.Load()
		began := time.Now()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				text := known.Token
				if i%2 == 1 {
					text = mark + "x_y"
				}
				shown, err := k.Authenticate(t.Context(), text)
				switch {
				case time.Since(began) > askWithin:
					t.Errorf("answered after %s", time.Since(began))
				case i%2 == 0 && (err != nil || !shown.Unchecked):
					t.Errorf("a known token: %+v, %v", shown, err)
				case i%2 == 1 && !errors.Is(err, api.Sentinel(api.CodeStalled)):
					t.Errorf("a token that is not known: %v", err)
				}
			})
		}
		all.Wait()
		if n := s.reads.Load() - before; n != 1 {
			t.Errorf("the storage was asked %d times", n)
		}
		began = time.Now()
		if _, err := k.Authenticate(t.Context(), mark+"x_y"); err == nil || time.Since(began) > 0 {
			t.Errorf("just after a failure: %v after %s", err, time.Since(began))
		}
		<-time.After(trustedFor)
		if _, err := k.Authenticate(t.Context(), known.Token); !errors.Is(err, api.Sentinel(api.CodeStalled)) {
			t.Errorf("after some minutes: %v", err)
		}
		comeBack()
		<-time.After(failureFor)
		if shown, err := k.Authenticate(t.Context(), known.Token); err != nil || shown.Unchecked {
			t.Errorf("when it is back: %+v, %v", shown, err)
		}
		if text := said.String(); strings.Count(text, "level=ERROR") != 1 || strings.Count(text, "level=INFO") != 1 {
			t.Errorf("the log: %s", text)
		}
	})
}

// TestTokensOfADamagedStorage checks that a storage that is damaged is not trusted: no token counts.
func TestTokensOfADamagedStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, documents := newKeeper(t)
		s := &silent{Documents: documents}
		k := NewKeeper(s, wallClock, nil)
		defer func() { _ = k.Close() }()
		known := create(t, k, api.TokenRequest{Name: "ada", Role: api.RoleRead})
		<-time.After(time.Minute)
		s.fault = journal.ErrCorrupt
		if _, err := k.Authenticate(t.Context(), known.Token); !errors.Is(err, api.Sentinel(api.CodeStorage)) {
			t.Errorf("%v", err)
		}
		if err := k.Check(t.Context()); !errors.Is(err, journal.ErrCorrupt) {
			t.Errorf("the check: %v", err)
		}
	})
}

// TestCounts checks that a token counts no more once it is revoked or its time is over.
func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newKeeper(t)
		short := create(t, k, api.TokenRequest{Name: "ada", Role: api.RoleRead, ExpiresIn: api.Duration(time.Minute)})
		long := create(t, k, api.TokenRequest{Name: "bob", Role: api.RoleRead})
		if err := errors.Join(k.Counts(t.Context(), short), k.Counts(t.Context(), long)); err != nil {
			t.Error(err)
		}
		if err := k.RevokeToken(t.Context(), "bob"); err != nil {
			t.Error(err)
		}
		<-time.After(time.Minute)
		for _, token := range []api.Token{short, long} {
			if err := k.Counts(t.Context(), token); !errors.Is(err, api.Sentinel(api.CodeNoToken)) {
				t.Errorf("%s: %v", token.Name, err)
			}
		}
	})
}

// TestAuditWithoutRoom checks that entries of the audit log for which there is no room hold nobody up, and are in the
// log of the process.
func TestAuditWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, documents := newKeeper(t)
		var said bytes.Buffer
		stuck := &stuckWrites{Documents: documents, back: make(chan struct{})}
		k := NewKeeper(stuck, wallClock, slog.New(slog.NewTextHandler(&said, nil)))
		defer func() { _ = k.Close() }()
		defer close(stuck.back)
		k.Record(api.Audited{})
		synctest.Wait() // it is being written
		began := time.Now()
		for range mostWaiting + 1 {
			k.Record(api.Audited{Path: "/late"})
		}
		if took := time.Since(began); took != recordWithin || !strings.Contains(said.String(), "/late") {
			t.Errorf("after %s: %s", took, said.String())
		}
	})
}

// stuckWrites are documents that cannot be written until the storage is back.
type stuckWrites struct {
	journal.Documents
	back chan struct{}
}

func (s *stuckWrites) PutDocuments(ctx context.Context, all ...journal.Document) error {
	<-s.back
	return s.Documents.PutDocuments(ctx, all...)
}
