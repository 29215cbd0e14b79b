package access

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

func wallClock() api.Time { return api.At(time.Now()) }

// newKeeper returns a keeper that is closed with the test, and what it keeps.
func newKeeper(t *testing.T) (*Keeper, journal.Documents) {
	t.Helper()
	documents := journal.Journal(memory.New()).(journal.Documents)
	k := NewKeeper(documents, wallClock, nil)
	t.Cleanup(func() { _ = k.Close() })
	return k, documents
}

func create(t *testing.T, keeper api.Access, r api.TokenRequest) api.Token {
	t.Helper()
	token, err := keeper.CreateToken(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestRefusedTokens(t *testing.T) {
	k, _ := newKeeper(t)
	for _, c := range []struct {
		of   api.TokenRequest
		says string
	}{
		{api.TokenRequest{Role: api.RoleRead}, "1 to 100 characters"},
		{api.TokenRequest{Name: strings.Repeat("x", 101), Role: api.RoleRead}, "1 to 100 characters"},
		{api.TokenRequest{Name: "a\r\nSet-Cookie: b", Role: api.RoleRead}, "can be printed"},
		{api.TokenRequest{Name: "a\x7f", Role: api.RoleRead}, "can be printed"},
		{api.TokenRequest{Name: "a\u202eb", Role: api.RoleRead}, "can be printed"},
		{api.TokenRequest{Name: " a", Role: api.RoleRead}, "no space at its ends"},
		{api.TokenRequest{Name: "Local", Role: api.RoleRead}, "taken for somebody else"},
		{api.TokenRequest{Name: "ada (root)", Role: api.RoleRead}, "taken for somebody else"},
		{api.TokenRequest{Name: "a"}, `no role ""`},
		{api.TokenRequest{Name: "a", Role: "Admin"}, `no role "Admin"`},
		{api.TokenRequest{Name: "a", Role: api.RoleRead, Queues: []string{"mail"}}, "role worker"},
		{api.TokenRequest{Name: "a", Role: api.RoleRead, ExpiresIn: -1}, "longer than zero"},
		{api.TokenRequest{Name: "a", Role: api.RoleRead, Namespace: "../a"}, "namespace of a token"},
		{api.TokenRequest{Name: "a", Role: api.RoleRead, Namespace: "A"}, "namespace of a token"},
		{api.TokenRequest{Name: "a", Role: api.RoleRead, Namespace: strings.Repeat("a", 41)}, "namespace of a token"},
	} {
		_, err := k.CreateToken(t.Context(), c.of)
		if !errors.Is(err, api.Sentinel(api.CodeInvalid)) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %s", c.of, err, c.says)
		}
	}
	if all, err := k.Tokens(t.Context()); len(all) > 0 || err != nil {
		t.Errorf("%v, %v", all, err)
	}
}

// TestAuthenticate checks that every text but the whole text of a token is refused in the same words.
func TestAuthenticate(t *testing.T) {
	k, documents := newKeeper(t)
	token := create(t, k, api.TokenRequest{Name: "ada", Role: api.RoleOperate})
	other := create(t, k, api.TokenRequest{Name: "bob", Role: api.RoleAdmin})
	got, err := k.Authenticate(t.Context(), token.Token)
	if err != nil || got.Token.Name != "ada" || got.Token.Token != "" {
		t.Errorf("%+v, %v", got, err)
	}
	_, secret, _ := strings.Cut(strings.TrimPrefix(token.Token, mark), "_")
	said := ""
	for _, text := range []string{
		"", mark, token.ID, mark + token.ID, mark + token.ID + "_", mark + "_" + secret, token.Token + "x",
		token.Token[:len(token.Token)-1], strings.ToUpper(token.Token), mark + other.ID + "_" + secret,
		mark + "000000000000_" + secret, token.Token[len(mark):], mark + token.ID + "_" + hashOf(secret),
		" " + token.Token,
	} {
		_, err := k.Authenticate(t.Context(), text)
		if !errors.Is(err, api.Sentinel(api.CodeNoToken)) || said != "" && said != err.Error() {
			t.Errorf("%q: %v; another one was told %s", text, err, said)
			continue
		}
		said = err.Error()
	}
	found, err := documents.FindDocuments(t.Context(), "", "~", false, 100)
	if err != nil || len(found) != 2 {
		t.Fatalf("%d documents, %v", len(found), err)
	}
	for _, d := range found {
		if strings.Contains(string(d.Value), secret) {
			t.Errorf("the secret part is stored: %s", d.Value)
		}
	}
}

// TestRevokedElsewhere checks that a server learns within two seconds which tokens another server on the same
// database has revoked.
func TestRevokedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, documents := newKeeper(t)
		token := create(t, k, api.TokenRequest{Name: "ada", Role: api.RoleRead})
		elsewhere := NewKeeper(documents, wallClock, nil)
		defer func() { _ = elsewhere.Close() }()
		if err := elsewhere.RevokeToken(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
		<-time.After(freshFor + time.Millisecond)
		if _, err := k.Authenticate(t.Context(), token.Token); !errors.Is(err, api.Sentinel(api.CodeNoToken)) {
			t.Errorf("after two seconds: %v", err)
		}
	})
}

// TestRevokedElsewhereAndClockSetBack checks that a clock that is set back does not let a server believe in revoked
// tokens until it has caught up.
func TestRevokedElsewhereAndClockSetBack(t *testing.T) {
	_, documents := newKeeper(t)
	now := wallClock()
	k := NewKeeper(documents, func() api.Time { return now }, nil)
	defer func() { _ = k.Close() }()
	token := create(t, k, api.TokenRequest{Name: "ada", Role: api.RoleRead})
	elsewhere := NewKeeper(documents, wallClock, nil)
	defer func() { _ = elsewhere.Close() }()
	if err := elsewhere.RevokeToken(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	now = api.At(now.Std().Add(-time.Hour))
	if _, err := k.Authenticate(t.Context(), token.Token); !errors.Is(err, api.Sentinel(api.CodeNoToken)) {
		t.Errorf("after the clock was set back: %v", err)
	}
}

// TestWithin checks that the view of one namespace shows no token and no entry of another, and changes none.
func TestWithin(t *testing.T) {
	k, _ := newKeeper(t)
	blue := k.Within("blue")
	mine := create(t, blue, api.TokenRequest{Name: "ada", Role: api.RoleRead})
	create(t, k, api.TokenRequest{Name: "ada", Role: api.RoleRead})
	whole := create(t, k, api.TokenRequest{Name: "root", Role: api.RoleAdmin, Namespace: api.AllNamespaces})
	if all, err := blue.Tokens(t.Context()); err != nil || len(all) != 1 || all[0].ID != mine.ID {
		t.Errorf("%+v, %v", all, err)
	}
	for _, name := range []string{"root", whole.ID} {
		if err := blue.RevokeToken(t.Context(), name); !errors.Is(err, api.Sentinel(api.CodeNotFound)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, namespace := range []string{api.DefaultNamespace, api.AllNamespaces, "green"} {
		_, err := blue.CreateToken(t.Context(), api.TokenRequest{Name: "x", Role: api.RoleRead, Namespace: namespace})
		if !errors.Is(err, api.Sentinel(api.CodeForbidden)) {
			t.Errorf("%s: %v", namespace, err)
		}
	}
	if err := k.RevokeToken(t.Context(), "ada"); !errors.Is(err, api.Sentinel(api.CodeConflict)) {
		t.Errorf("a name that two tokens have: %v", err)
	}
	if err := blue.RevokeToken(t.Context(), "ada"); err != nil {
		t.Error(err)
	}
	if err := k.RevokeToken(t.Context(), "ada"); err != nil {
		t.Errorf("the token of default was revoked with that of blue: %v", err)
	}
}

// record adds entries to the audit log and waits until they are stored.
func record(k *Keeper, entries ...api.Audited) {
	for _, e := range entries {
		k.Record(e)
	}
	synctest.Wait()
}

// all reads the audit log page by page.
func all(t *testing.T, keeper api.Access, q api.AuditQuery) (entries []api.Audited, cursors []string) {
	t.Helper()
	for {
		page, err := keeper.Audit(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, page.Entries...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return entries, cursors
		}
		cursors = append(cursors, q.Cursor)
	}
}

// TestAuditPages checks that the pages of the audit log have every entry once, the newest first, also of one actor or
// namespace.
func TestAuditPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newKeeper(t)
		for i := range 25 {
			e := api.Audited{Actor: "ada", Path: fmt.Sprint(i), Namespace: api.DefaultNamespace}
			if i%2 == 1 {
				e.Actor, e.Namespace = "bob", "blue"
			}
			record(k, e)
			<-time.After(time.Second)
		}
		for _, c := range []struct {
			keeper      api.Access
			q           api.AuditQuery
			count, step int
		}{
			{k, api.AuditQuery{Limit: 10}, 25, 1},
			{k, api.AuditQuery{}, 25, 1},
			{k, api.AuditQuery{Limit: 4, Actor: "ada"}, 13, 2},
			{k.Within("blue"), api.AuditQuery{Limit: 4}, 12, 2},
			{k.Within("blue"), api.AuditQuery{Actor: "ada"}, 0, 2},
			{k.Within("green"), api.AuditQuery{}, 0, 1},
			{k, api.AuditQuery{Since: api.At(time.Now().Add(-5 * time.Second))}, 5, 1},
		} {
			entries, _ := all(t, c.keeper, c.q)
			if len(entries) != c.count {
				t.Errorf("%+v: %d entries, want %d", c.q, len(entries), c.count)
			}
			for i := 1; i < len(entries); i++ {
				if d := entries[i-1].At.Sub(entries[i].At); d != time.Duration(c.step)*time.Second {
					t.Errorf("%+v: %s between two entries", c.q, d)
				}
			}
		}
		for _, forged := range []string{
			"x", "!", base64.RawURLEncoding.EncodeToString([]byte("../tokens/1")),
			base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("9", 20) + "-" + strings.Repeat("g", 16))),
		} {
			if _, err := k.Audit(t.Context(), api.AuditQuery{Cursor: forged}); api.CodeOf(err) != api.CodeInvalid {
				t.Errorf("%q: %v", forged, err)
			}
		}
	})
}

// TestAuditCursorsTellNothing checks that a cursor of one namespace does not tell the ids of entries of another,
// however many lie between.
func TestAuditCursorsTellNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, documents := newKeeper(t)
		var foreign []journal.Document
		for i := range scanAtMost + 10 {
			e := api.Audited{Actor: "bob", Namespace: "green", Path: fmt.Sprint(i)}
			e.At = api.At(time.Now().Add(time.Duration(i) * time.Second))
			foreign = append(foreign, document(e))
		}
		if err := documents.PutDocuments(t.Context(), foreign...); err != nil {
			t.Fatal(err)
		}
		record(k, api.Audited{Actor: "ada", Namespace: "blue"})
		entries, cursors := all(t, k.Within("blue"), api.AuditQuery{})
		if len(entries) != 1 || len(cursors) != 1 {
			t.Fatalf("%d entries, %d cursors", len(entries), len(cursors))
		}
		id, err := base64.RawURLEncoding.DecodeString(cursors[0])
		if err != nil || slices.ContainsFunc(foreign, func(d journal.Document) bool {
			return d.Key == auditPrefix+string(id)
		}) {
			t.Errorf("the cursor has the id of a foreign entry: %s, %v", id, err)
		}
	})
}

// TestAuditForgets checks that entries are kept for 90 days. Each write removes some of the older ones.
func TestAuditForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newKeeper(t)
		record(k, api.Audited{Path: "old"})
		<-time.After(auditKept - time.Minute)
		record(k, api.Audited{Path: "young"})
		if entries, _ := all(t, k, api.AuditQuery{}); len(entries) != 2 {
			t.Errorf("before 90 days: %+v", entries)
		}
		<-time.After(2 * time.Minute)
		record(k, api.Audited{Path: "new"})
		entries, _ := all(t, k, api.AuditQuery{})
		if len(entries) != 2 || entries[0].Path != "new" || entries[1].Path != "young" {
			t.Errorf("after 90 days: %+v", entries)
		}
	})
}

// broken are documents that cannot be written.
type broken struct{ journal.Documents }

func (broken) PutDocuments(context.Context, ...journal.Document) error { return journal.ErrFull }

// TestAuditIsClosed checks that everything recorded before Close is stored by its end. Entries that cannot be stored
// are reported then, and nobody hangs.
func TestAuditIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, documents := newKeeper(t)
		for i := range 1000 {
			k.Record(api.Audited{Path: fmt.Sprint(i)})
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		found, err := documents.FindDocuments(t.Context(), auditPrefix, after(auditPrefix), false, 2000)
		if err != nil || len(found) != 1000 {
			t.Errorf("%d entries, %v", len(found), err)
		}
		k.Record(api.Audited{}) // an entry after the end is dropped
		full := NewKeeper(broken{documents}, wallClock, nil)
		full.Record(api.Audited{})
		if err := full.Close(); !errors.Is(err, api.Sentinel(api.CodeStalled)) {
			t.Errorf("a full disk: %v", err)
		}
	})
}

// away are documents that cannot be written for now.
type away struct {
	journal.Documents
	now atomic.Bool
}

func (a *away) PutDocuments(ctx context.Context, all ...journal.Document) error {
	if a.now.Load() {
		return journal.ErrNoAnswer
	}
	return a.Documents.PutDocuments(ctx, all...)
}

// TestAuditOfAnOutage checks that entries recorded during an outage of the storage are written when it is back, and
// that nobody waits for that.
func TestAuditOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, documents := newKeeper(t)
		a := &away{Documents: documents}
		k := NewKeeper(a, wallClock, nil)
		defer func() { _ = k.Close() }()
		a.now.Store(true)
		for i := range 3 * mostAtOnce {
			k.Record(api.Audited{Path: fmt.Sprint(i)})
			synctest.Wait()
		}
		a.now.Store(false)
		<-time.After(2 * time.Second)
		found, err := documents.FindDocuments(t.Context(), auditPrefix, after(auditPrefix), false, 2000)
		if err != nil || len(found) != 3*mostAtOnce {
			t.Errorf("%d entries, %v", len(found), err)
		}
		a.now.Store(true)
		for range 2 * mostWaiting {
			k.Record(api.Audited{})
		}
	})
}
