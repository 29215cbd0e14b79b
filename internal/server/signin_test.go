package server

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
)

// people is an issuer that believes everybody, and remembers nothing.
type people struct{ secure bool }

func (people) Begin(_ context.Context, to string) (address, kept string, err error) {
	return "https://login.example.com/auth?x=y", "kept-" + url.QueryEscape(to), nil
}

func (people) Finish(_ context.Context, kept string, answer url.Values) (who api.Token, to string, err error) {
	name := answer.Get("code")
	who = api.Token{ID: access.ForeignID("x", name), Name: name, Role: api.RoleRead, Namespace: api.DefaultNamespace}
	switch {
	case kept != "kept-%2Fa":
		return api.Token{}, "", &api.Error{Code: api.CodeNoToken, Message: "not begun", Hint: "sign in again"}
	case name == "eve":
		return who, "", &api.Error{Code: api.CodeForbidden, Message: "<eve> has no role", Hint: "ask for one"}
	}
	return who, "/a", nil
}

func (people) Name() string { return "login.example.com" }

func (p people) Secure() bool { return p.secure }

// cookiesOf returns the cookies of an answer, by name.
func cookiesOf(t *testing.T, header http.Header) map[string]*http.Cookie {
	t.Helper()
	out := map[string]*http.Cookie{}
	for _, line := range header.Values("Set-Cookie") {
		c, err := http.ParseSetCookie(line)
		if err != nil {
			t.Fatal(err)
		}
		out[c.Name] = c
	}
	return out
}

// TestSignIn checks the cookies of somebody who signs in and out, where browsers reach the server with encryption and
// where they do not: no script reads them, no other site makes a browser send them, and each counts for one thing.
func TestSignIn(t *testing.T) {
	for _, secure := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuarded(t, func(c *Config) { c.SignIn, c.SessionFor = people{secure}, time.Hour })
			prefix := ""
			if secure {
				prefix = "__Host-"
			}
			status, header, _ := g.plain("GET", "/login?to=/a", "")
			begun := cookiesOf(t, header)[prefix+"pawl-login"]
			if status != http.StatusSeeOther || header.Get("Location") != "https://login.example.com/auth?x=y" ||
				begun == nil || !begun.HttpOnly || begun.Secure != secure || begun.SameSite != http.SameSiteLaxMode {
				t.Fatalf("begun: %d %v", status, header)
			}
			cookie := func(c *http.Cookie) string { return c.Name + "=" + c.Value }

			status, header, text := g.plain("GET", "/login/callback?code=ada", "")
			if status != http.StatusUnauthorized || cookiesOf(t, header)[prefix+"pawl"] != nil {
				t.Errorf("without the cookie of before: %d %v %s", status, header, text)
			}
			status, header, text = g.plain("GET", "/login/callback?code=eve", "", "Cookie", cookie(begun))
			if status != http.StatusForbidden || cookiesOf(t, header)[prefix+"pawl"] != nil ||
				!strings.Contains(text, "&lt;eve&gt; has no role") ||
				!strings.Contains(text, "What to do: ask for one") {
				t.Errorf("without a role: %d %v %s", status, header, text)
			}
			status, header, _ = g.plain("GET", "/login/callback?code=ada", "", "Cookie", cookie(begun))
			in := cookiesOf(t, header)[prefix+"pawl"]
			if status != http.StatusSeeOther || header.Get("Location") != "/a" || in == nil || !in.HttpOnly ||
				in.Secure != secure || in.SameSite != http.SameSiteStrictMode || in.Path != "/" || in.MaxAge != 3600 ||
				cookiesOf(t, header)[begun.Name].MaxAge >= 0 {
				t.Fatalf("signed in: %d %v", status, header)
			}
			g.checkSession(cookie(in))
			status, header, _ = g.plain("POST", "/logout", "", "Cookie", cookie(in))
			if status != http.StatusNoContent || cookiesOf(t, header)[in.Name].MaxAge >= 0 {
				t.Errorf("signed out: %d %v", status, header)
			}
			status, _, _ = g.plain("GET", "/api/v1/runs", "", "Cookie", cookie(in))
			if status != http.StatusUnauthorized {
				t.Errorf("after that: %d", status)
			}
			if status, _, _ := g.plain("POST", "/logout", ""); status != http.StatusNoContent {
				t.Errorf("signed out twice: %d", status)
			}
		})
	}
}

// checkSession checks what the cookie of a session lets a browser do.
func (g *guarded) checkSession(cookie string) {
	g.Helper()
	for _, c := range []struct {
		method, path string
		header       []string
		want         int
	}{
		{"GET", "/api/v1/runs", []string{"Cookie", cookie}, http.StatusOK},
		{"GET", "/api/v1/runs", []string{"Cookie", cookie, "Sec-Fetch-Site", "same-origin"}, http.StatusOK},
		{"GET", "/api/v1/runs", []string{"Cookie", cookie, "Sec-Fetch-Site", "same-site"}, http.StatusUnauthorized},
		{"GET", "/api/v1/runs", []string{"Cookie", cookie, "Sec-Fetch-Site", "cross-site"}, http.StatusUnauthorized},
		{"POST", "/logout", []string{"Cookie", cookie, "Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{"POST", "/logout", []string{"Cookie", cookie, "Origin", "https://evil.example"}, http.StatusForbidden},
		{"GET", "/api/v1/runs", []string{"Cookie", cookie, "Authorization", "Bearer x"}, http.StatusUnauthorized},
		{"GET", "/api/v1/tokens", []string{"Cookie", cookie}, http.StatusForbidden},
		{"GET", "/api/v1/runs", []string{"Cookie", "pawl-x=" + cookie}, http.StatusUnauthorized},
	} {
		if status, _, text := g.plain(c.method, c.path, "", c.header...); status != c.want {
			g.Errorf("%s %s with %v: %d %s, want %d", c.method, c.path, c.header, status, text, c.want)
		}
	}
}

// TestNobodySignsIn checks that a server without an issuer has no such requests and takes no cookies.
func TestNobodySignsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		if status, _, _ := g.plain("GET", "/login", "", "Authorization",
			"Bearer "+g.tokens[api.RoleRead].Token); status != http.StatusNotFound {
			t.Errorf("a login: %d", status)
		}
		status, _, _ := g.plain("GET", "/api/v1/runs", "", "Cookie", "pawl="+g.tokens[api.RoleRead].Token)
		if status != http.StatusUnauthorized {
			t.Errorf("a token in a cookie: %d", status)
		}
	})
}
