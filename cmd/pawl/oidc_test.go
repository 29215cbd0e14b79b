//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pawlbin"
)

// issuerProcess is a real issuer, in a process of its own, at which a few people sign in.
type issuerProcess struct {
	*testing.T
	cmd     *exec.Cmd
	address string
}

// startIssuer builds tools/issuer and starts it for a server at an address.
func startIssuer(t *testing.T, server string, lasts time.Duration) *issuerProcess {
	t.Helper()
	bin := filepath.Join(pawlbin.BuildIn(t, "tools/issuer", "."), "issuer")
	p := &issuerProcess{T: t, cmd: exec.Command(bin, "-listen", "127.0.0.1:0", "-redirect", server+"/login/callback",
		"-lasts", lasts.String(), "-user", "ada=admins,people", "-user", "bob=people", "-user", "eve")}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	p.address = strings.TrimSpace(line)
	return p
}

func (p *issuerProcess) stop() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // it was killed
}

// visitor is somebody with a browser.
type visitor struct {
	*testing.T
	client *http.Client
	server string
}

func newVisitor(t *testing.T, server string) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &visitor{t, &http.Client{Jar: jar}, server}
}

// signIn goes to the issuer, says who it is, and comes back.
func (b *visitor) signIn(name, to string) (int, string, *url.URL) {
	b.Helper()
	form, err := b.client.Get(b.server + "/login?to=" + url.QueryEscape(to))
	if err != nil {
		b.Fatal(err)
	}
	asked := form.Request.URL
	if err := form.Body.Close(); err != nil || asked.Path != "/login/username" {
		b.Fatalf("not asked for a name: %d %s, %v", form.StatusCode, asked, err)
	}
	asked.Path, asked.RawQuery = "/login/username", url.Values{
		"id": {asked.Query().Get("authRequestID")}, "username": {name}, "password": {"secret"},
	}.Encode()
	answer, err := b.client.Post(asked.String(), "application/x-www-form-urlencoded", nil)
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		b.Fatal(err)
	}
	return answer.StatusCode, string(text), answer.Request.URL
}

// ask asks the server as a page does, or as one of another site, as the browser says.
func (b *visitor) ask(method, path, body, site string) (int, string) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.server+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", site)
	answer, err := b.client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		b.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// session returns the cookie that lets the browser in.
func (b *visitor) session() *http.Cookie {
	b.Helper()
	u, err := url.Parse(b.server)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range b.client.Jar.Cookies(u) {
		if c.Name == "pawl" {
			return c
		}
	}
	return nil
}

// token returns a token of the issuer for somebody, as a program gets it.
func (p *issuerProcess) token(redirect, name string) string {
	p.Helper()
	b := newVisitor(p.T, p.address)
	b.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), redirect) {
			return http.ErrUseLastResponse
		}
		return nil
	}
	cfg := oauth2.Config{
		ClientID: "pawl", ClientSecret: "secret", RedirectURL: redirect, Scopes: []string{"openid", "email"},
		Endpoint: oauth2.Endpoint{AuthURL: p.address + "/auth", TokenURL: p.address + "/oauth/token"},
	}
	form, err := b.client.Get(cfg.AuthCodeURL("s"))
	if err != nil {
		p.Fatal(err)
	}
	if err := form.Body.Close(); err != nil {
		p.Fatal(err)
	}
	answer, err := b.client.PostForm(p.address+"/login/username", url.Values{
		"id": {form.Request.URL.Query().Get("authRequestID")}, "username": {name}, "password": {"secret"},
	})
	if err != nil {
		p.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		p.Fatal(err)
	}
	back, err := answer.Location()
	if err != nil {
		p.Fatal(err)
	}
	tokens, err := cfg.Exchange(p.Context(), back.Query().Get("code"))
	if err != nil {
		p.Fatal(err)
	}
	return tokens.AccessToken
}

// startWithIssuer starts a server at which the people of an issuer sign in.
func startWithIssuer(t *testing.T, dir string, lasts time.Duration) (*process, *issuerProcess) {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	public := "http://127.0.0.1:" + port
	id := startIssuer(t, public, lasts)
	secret := filepath.Join(dir, "client.secret")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The last --listen counts: the issuer has to know the address before the server has it.
	p := startServer(t, dir, "--listen", "127.0.0.1:"+port, "--database", "sqlite:"+dir+"/pawl.db",
		"--oidc-issuer", id.address, "--oidc-client-id", "pawl", "--oidc-client-secret-file", secret,
		"--oidc-role", "admins=admin@*", "--oidc-role", "people=read", "--public-url", public)
	p.address = public
	return p, id
}

// TestOpenIDConnect checks that people sign in at a real issuer, with the role that their group has, that programs show
// its tokens, and what becomes of both when the issuer is away.
func TestOpenIDConnect(t *testing.T) {
	nightly.Only(t, "it builds an issuer")
	dir := t.TempDir()
	p, id := startWithIssuer(t, dir, 12*time.Second)
	public := p.address

	ada := newVisitor(t, public)
	if status, text := ada.ask("GET", "/api/v1/caller", "", "same-origin"); status != http.StatusUnauthorized {
		t.Fatalf("before: %d %s", status, text)
	}
	if status, text := ada.ask("GET", "/version", "", "same-origin"); !strings.Contains(text, `"signIn":"127.0.0.1"`) {
		t.Errorf("%d %s", status, text)
	}
	status, text, at := ada.signIn("ada", "/tokens")
	if status != http.StatusOK || at.String() != public+"/tokens" {
		t.Fatalf("signed in: %d at %s: %s", status, at, text)
	}
	checkCaller(t, ada, "ada@example.com", "admin")
	flow := `{"flow":"pawl: 1\nname: a\nsteps: [{name: b, noop: {}}]"}`
	for _, site := range []string{"cross-site", "same-site"} {
		if status, text := ada.ask("POST", "/api/v1/runs", flow, site); status < 400 {
			t.Errorf("a page of another site (%s) starts runs: %d %s", site, status, text)
		}
		if status, _ := ada.ask("GET", "/api/v1/runs", "", site); status != http.StatusUnauthorized {
			t.Errorf("a page of another site (%s) reads runs: %d", site, status)
		}
	}
	if status, text := ada.ask("POST", "/api/v1/runs", flow, "same-origin"); status != http.StatusCreated {
		t.Errorf("a start: %d %s", status, text)
	}

	bob := newVisitor(t, public)
	bob.signIn("bob", "//evil.example")
	checkCaller(t, bob, "bob@example.com", "read")
	if status, text := bob.ask("POST", "/api/v1/runs", flow, "same-origin"); status != http.StatusForbidden {
		t.Errorf("a start by a reader: %d %s", status, text)
	}
	eve := newVisitor(t, public)
	status, text, _ = eve.signIn("eve", "/")
	if status != http.StatusForbidden || !strings.Contains(text, "has no role here") ||
		!strings.Contains(text, "--oidc-role") || eve.session() != nil {
		t.Errorf("somebody without a group: %d %s", status, text)
	}

	// Programs show tokens of the issuer.
	token := id.token(public+"/login/callback", "ada")
	if status, text := p.bearer(token, "GET", "/api/v1/caller", ""); !strings.Contains(text, `"role":"admin"`) {
		t.Errorf("a token of the issuer: %d %s", status, text)
	}
	without := id.token(public+"/login/callback", "eve")
	if status, text := p.bearer(without, "GET", "/api/v1/runs", ""); status != http.StatusForbidden ||
		!strings.Contains(text, "--oidc-role") {
		t.Errorf("a token without a role: %d %s", status, text)
	}

	// The issuer is away: who has signed in stays, nobody comes in, and what it has issued ends in time.
	id.stop()
	checkCaller(t, bob, "bob@example.com", "read")
	answer, err := newVisitor(t, public).client.Get(public + "/login/callback?state=x&code=y")
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("an answer that nobody asked for: %d, %v", answer.StatusCode, err)
	}
	for end := time.Now().Add(patience); ; {
		status, text := p.bearer(token, "GET", "/api/v1/caller", "")
		if status == http.StatusUnauthorized && strings.Contains(text, "expired at") {
			break
		}
		if status != http.StatusOK || time.Now().After(end) {
			t.Fatalf("a token whose time is over: %d %s", status, text)
		}
	}

	// A session is a token: it is listed, it ends with a logout, and an admin revokes it.
	kept := ada.session().Value
	if status, text := ada.ask("POST", "/logout", "", "cross-site"); status < 400 || ada.session() == nil {
		t.Errorf("a page of another site signs somebody out: %d %s", status, text)
	}
	status, text = ada.ask("POST", "/logout", "", "same-origin")
	if status != http.StatusNoContent || ada.session() != nil {
		t.Errorf("signed out: %d %s", status, text)
	}
	if status, text := p.bearer(kept, "GET", "/api/v1/caller", ""); status != http.StatusUnauthorized {
		t.Errorf("the session of before: %d %s", status, text)
	}
	cmd := command(t, dir)
	cmd.Args = append(cmd.Args, "token", "revoke", "bob@example.com", "--database", "sqlite:"+dir+"/pawl.db")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if status, text := bob.ask("GET", "/api/v1/caller", "", "same-origin"); status != http.StatusUnauthorized {
		t.Errorf("a session that was revoked: %d %s", status, text)
	}
	audit := command(t, dir)
	audit.Args = append(audit.Args, "audit", "--database", "sqlite:"+dir+"/pawl.db")
	out, err := audit.CombinedOutput()
	for _, entry := range []string{
		"ada@example.com  GET    303  /login/callback", "eve@example.com  GET    403  /login/callback",
		"ada@example.com  POST   204  /logout",
	} {
		if err != nil || !strings.Contains(string(out), entry) {
			t.Errorf("the audit log has no %q, %v:\n%s", entry, err, out)
		}
	}
}

// checkCaller checks whom the server takes a browser for.
func checkCaller(t *testing.T, b *visitor, name, role string) {
	t.Helper()
	status, text := b.ask("GET", "/api/v1/caller", "", "same-origin")
	var caller struct{ Name, Role string }
	if err := json.Unmarshal([]byte(text), &caller); err != nil || status != http.StatusOK || caller.Name != name ||
		caller.Role != role {
		t.Errorf("%d %s; want %s with the role %s", status, text, name, role)
	}
}
