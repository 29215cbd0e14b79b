package access

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestSessions checks that sessions are tokens that end: by their time, when somebody signs in with more browsers than
// are wanted, and all of somebody's at once when they are revoked by the name.
func TestSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, documents := newKeeper(t)
		sign := func(subject, name string) string {
			t.Helper()
			who := api.Token{ID: ForeignID("https://x", subject), Name: name, Role: api.RoleRead, Namespace: "default"}
			got, err := k.SignIn(t.Context(), who, time.Hour)
			if err != nil || !got.Session || got.Name != name || got.ID == who.ID {
				t.Fatalf("%+v, %v", got, err)
			}
			<-time.After(time.Second)
			return got.Token
		}
		counts := func(text string) bool {
			t.Helper()
			got, err := k.Authenticate(t.Context(), text)
			if err != nil && api.CodeOf(err) != api.CodeNoToken {
				t.Fatal(err)
			}
			return err == nil && got.Token.Session
		}
		token := create(t, k, api.TokenRequest{Name: "ada", Role: api.RoleAdmin})
		var of []string
		for range mostSessions + 2 {
			of = append(of, sign("1", "ada"))
		}
		bob := sign("2", "bob")
		for i, text := range of {
			if got, want := counts(text), i >= 2; got != want {
				t.Errorf("session %d counts: %t", i, got)
			}
		}
		other := NewKeeper(documents, wallClock, nil)
		if got, err := other.Authenticate(t.Context(), bob); err != nil || got.Token.Name != "bob" {
			t.Errorf("at another server: %+v, %v", got, err)
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		if err := k.RevokeToken(t.Context(), "ada"); api.CodeOf(err) != api.CodeConflict {
			t.Errorf("the name of a token and of sessions: %v", err)
		}
		if err := k.RevokeToken(t.Context(), token.ID); err != nil {
			t.Error(err)
		}
		if err := k.RevokeToken(t.Context(), "ada"); err != nil || counts(of[mostSessions]) || !counts(bob) {
			t.Errorf("all sessions of somebody: %v", err)
		}
		<-time.After(time.Hour)
		if _, err := k.Authenticate(t.Context(), bob); err == nil || !strings.Contains(err.Error(), "expired at") {
			t.Errorf("a session of before: %v", err)
		}
		sign("3", "cyd")
		if all, err := k.Tokens(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("sessions whose time is over are kept: %+v, %v", all, err)
		}
	})
}

// knows is an issuer with tokens that have the form of others' tokens.
type knows map[string]api.Token

func (k knows) Bearer(_ context.Context, text string) (api.Token, error) {
	if t, ok := k[text]; ok {
		return t, nil
	}
	return api.Token{}, &api.Error{Code: api.CodeNoToken, Message: "not one of the issuer"}
}

// TestTokensOfAnIssuer checks that a token of an issuer counts until its time is over, that the issuer is asked about
// nothing else, and that nobody is asked where there is no issuer.
func TestTokensOfAnIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newKeeper(t)
		who := api.Token{
			ID: ForeignID("https://x", "1"), Name: "ada", Role: api.RoleRead,
			ExpiresAt: api.At(time.Now().Add(time.Minute)),
		}
		if _, err := k.Authenticate(t.Context(), "a.b.c"); api.CodeOf(err) != api.CodeNoToken {
			t.Errorf("without an issuer: %v", err)
		}
		k.Trust(knows{"a.b.c": who, "pawl_1_2": who, "abc": who})
		got, err := k.Authenticate(t.Context(), "a.b.c")
		if err != nil || got.Token.Name != "ada" || k.Counts(t.Context(), got.Token) != nil {
			t.Errorf("%+v, %v", got, err)
		}
		for _, text := range []string{"pawl_1_2", "abc", "a.b.d"} {
			if _, err := k.Authenticate(t.Context(), text); api.CodeOf(err) != api.CodeNoToken {
				t.Errorf("%s: %v", text, err)
			}
		}
		<-time.After(time.Minute)
		if err := k.Counts(t.Context(), got.Token); api.CodeOf(err) != api.CodeNoToken {
			t.Errorf("a stream of a token whose time is over: %v", err)
		}
	})
}

// TestForeignID checks that nobody has the id of somebody else, and that no kept token has such an id.
func TestForeignID(t *testing.T) {
	seen := map[string]string{}
	for _, issuer := range []string{"https://x", "https://x/"} {
		for _, subject := range []string{"1", "2", "/1"} {
			id := ForeignID(issuer, subject)
			if before, there := seen[id]; there || !strings.HasPrefix(id, foreign) {
				t.Errorf("%s of %s has the id %s, as %s", subject, issuer, id, before)
			}
			seen[id] = fmt.Sprint(issuer, subject)
		}
	}
}
