package issuer

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
)

// desk is an issuer that says about itself what it has to, and signs what a test wants. The one that people sign in at
// is tried with the command.
type desk struct {
	*testing.T
	server   *httptest.Server
	key      *ecdsa.PrivateKey
	at       time.Time
	keysRead atomic.Int64
	log      bytes.Buffer
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{T: t, key: newKey(t), at: time.Unix(1_700_000_000, 0)}
	mux := http.NewServeMux()
	d.server = httptest.NewServer(mux)
	t.Cleanup(d.server.Close)
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		d.write(w, map[string]any{
			"issuer": d.server.URL, "jwks_uri": d.server.URL + "/keys",
			"authorization_endpoint": d.server.URL + "/auth", "token_endpoint": d.server.URL + "/token",
			"id_token_signing_alg_values_supported": []string{"ES256", "HS256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		d.keysRead.Add(1)
		d.write(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: d.key.Public(), KeyID: "one", Algorithm: "ES256"}}})
	})
	return d
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (d *desk) write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		d.Error(err)
	}
}

func (d *desk) config() Config {
	return Config{
		URL: d.server.URL, ClientID: "pawl", RolesClaim: "realm.roles",
		Roles: []string{"CN=admins,DC=x=admin@*", "ops=operate@team-a", "people=read"},
		Log:   slog.New(slog.NewTextHandler(&d.log, nil)), Now: func() time.Time { return d.at },
	}
}

func (d *desk) issuer(change func(*Config)) *Issuer {
	d.Helper()
	cfg := d.config()
	if change != nil {
		change(&cfg)
	}
	i, err := New(d.Context(), cfg)
	if err != nil {
		d.Fatal(err)
	}
	return i
}

// sign returns a token with the usual claims and some others, of a key with a name.
func (d *desk) sign(algorithm jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	d.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		d.Fatal(err)
	}
	all := map[string]any{
		"iss": d.server.URL, "aud": "pawl", "sub": "42", "iat": d.at.Unix(), "exp": d.at.Add(time.Hour).Unix(),
		"email": "ada@example.com", "realm": map[string]any{"roles": []string{"people"}},
	}
	maps.Copy(all, claims)
	text, err := jwt.Signed(signer).Claims(all).Serialize()
	if err != nil {
		d.Fatal(err)
	}
	return text
}

// token returns a token that counts, with some claims.
func (d *desk) token(claims map[string]any) string { return d.sign(jose.ES256, d.key, "one", claims) }

// TestBearer checks who bears a token, and which tokens do not count.
func TestBearer(t *testing.T) {
	d := newDesk(t)
	i := d.issuer(nil)
	roles := func(names any) map[string]any { return map[string]any{"realm": map[string]any{"roles": names}} }
	id := access.ForeignID(d.server.URL, "42")
	for _, c := range []struct {
		name   string
		claims map[string]any
		want   api.Token
	}{
		{"a list", nil, api.Token{Name: "ada@example.com", Role: "read", Namespace: "default"}},
		{"a text", roles("ops"), api.Token{Name: "ada@example.com", Role: "operate", Namespace: "team-a"}},
		{
			"the first that fits", roles([]any{"people", 7, "CN=admins,DC=x"}),
			api.Token{Name: "ada@example.com", Role: "admin", Namespace: "*"},
		},
		{
			"keys of an object", roles(map[string]any{"ops": map[string]any{}}),
			api.Token{Name: "ada@example.com", Role: "operate", Namespace: "team-a"},
		},
		{
			"an address that nobody has verified",
			map[string]any{"email_verified": false},
			api.Token{Name: "42", Role: "read", Namespace: "default"},
		},
		{"for several", map[string]any{"aud": []string{"other", "pawl"}}, api.Token{
			Name: "ada@example.com", Role: "read", Namespace: "default",
		}},
	} {
		c.want.ID, c.want.CreatedAt, c.want.ExpiresAt = id, api.At(d.at), api.At(d.at.Add(time.Hour))
		if got, err := i.Bearer(t.Context(), d.token(c.claims)); err != nil || got.Name != c.want.Name ||
			got.Role != c.want.Role || got.Namespace != c.want.Namespace || got.ID != c.want.ID ||
			got.CreatedAt != c.want.CreatedAt || got.ExpiresAt != c.want.ExpiresAt {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
	public, err := json.Marshal(jose.JSONWebKey{Key: d.key.Public()})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, token string
		code        api.Code
		says        string
	}{
		{"expired", d.token(map[string]any{"exp": d.at.Unix() - 1}), api.CodeNoToken, "expired at"},
		{"of another", d.token(map[string]any{"iss": "https://x"}), api.CodeNoToken, "is not one of"},
		{"for another", d.token(map[string]any{"aud": "shop"}), api.CodeNoToken, `audience`},
		{"of another key", d.sign(jose.ES256, newKey(t), "one", nil), api.CodeNoToken, "signature"},
		{"of a key that everybody has", d.sign(jose.HS256, public, "one", nil), api.CodeNoToken, "algorithm"},
		{"without a signature", "eyJhbGciOiJub25lIn0.e30.", api.CodeNoToken, "is not one of"},
		{"no token", "a.b.c", api.CodeNoToken, "is not one of"},
		{"without a role", d.token(roles([]string{"guests"})), api.CodeForbidden, "has realm.roles: guests"},
		{"without the claim", d.token(map[string]any{"realm": 7}), api.CodeForbidden, "has no claim realm.roles"},
		{"the machine's name", d.token(map[string]any{"email": "Local"}), api.CodeForbidden, "cannot be the name"},
		{"the name of two", d.token(map[string]any{"email": "ada (root)"}), api.CodeForbidden, "cannot be the name"},
		{"a name that turns", d.token(map[string]any{"email": "a\u202eb"}), api.CodeForbidden, "cannot be the name"},
	} {
		_, err := i.Bearer(t.Context(), c.token)
		if api.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestIssuerAway checks that tokens of keys that were read count on while the issuer is away, that others are refused
// as what nobody can tell, that the server begins without it, and that made-up tokens do not make it ask again and
// again.
func TestIssuerAway(t *testing.T) {
	d := newDesk(t)
	i := d.issuer(nil)
	if _, err := i.Bearer(t.Context(), d.token(nil)); err != nil {
		t.Fatal(err)
	}
	before := d.keysRead.Load()
	d.at = d.at.Add(askEvery)
	for range 20 {
		_, err := i.Bearer(t.Context(), d.sign(jose.ES256, newKey(t), "unknown", nil))
		if api.CodeOf(err) != api.CodeNoToken {
			t.Errorf("a key that does not exist: %v", err)
		}
	}
	if n := d.keysRead.Load() - before; n != 1 {
		t.Errorf("the keys were read %d times", n)
	}
	d.server.Close()
	d.at = d.at.Add(askEvery)
	if _, err := i.Bearer(t.Context(), d.token(nil)); err != nil {
		t.Errorf("a key that is known: %v", err)
	}
	var err error
	for range 100 { // the library may still hand out what an earlier read has brought
		_, err = i.Bearer(t.Context(), d.sign(jose.ES256, newKey(t), "new", nil))
		if api.CodeOf(err) == api.CodeStalled {
			break
		}
	}
	if api.CodeOf(err) != api.CodeStalled {
		t.Errorf("a key that cannot be read: %v", err)
	}
	late := d.issuer(func(c *Config) { c.Public = "http://localhost:1" })
	if _, err := late.Bearer(t.Context(), d.token(nil)); api.CodeOf(err) != api.CodeStalled {
		t.Errorf("an issuer that was never found: %v", err)
	}
	if _, _, err := late.Begin(t.Context(), "/"); api.CodeOf(err) != api.CodeStalled {
		t.Errorf("to sign in there: %v", err)
	}
	if !strings.Contains(d.log.String(), "issuer-unanswered") {
		t.Errorf("the log says %s", &d.log)
	}
}

// TestIssuerComesBack checks that an issuer is found later that did not answer at first, and is not asked meanwhile.
func TestIssuerComesBack(t *testing.T) {
	d := newDesk(t)
	var down atomic.Bool
	var asked atomic.Int64
	answers := d.server.Config.Handler
	d.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		answers.ServeHTTP(w, r)
	})
	down.Store(true)
	i := d.issuer(nil)
	down.Store(false)
	for range 3 {
		if _, err := i.Bearer(t.Context(), d.token(nil)); api.CodeOf(err) != api.CodeStalled || asked.Load() != 1 {
			t.Errorf("asked %d times: %v", asked.Load(), err)
		}
	}
	d.at = d.at.Add(askEvery)
	if _, err := i.Bearer(t.Context(), d.token(nil)); err != nil {
		t.Error(err)
	}
}

// TestConfig checks what is wrong with configurations.
func TestConfig(t *testing.T) {
	d := newDesk(t)
	for _, c := range []struct {
		change func(*Config)
		says   string
	}{
		{func(c *Config) { c.URL = "login.example.com" }, `--oidc-issuer "login.example.com": write it as`},
		{func(c *Config) { c.URL = "http://login.example.com" }, "only https protects"},
		{func(c *Config) { c.URL = "https://me:pw@login.example.com" }, "no user"},
		{func(c *Config) { c.URL += "/" }, "write it as the issuer does"},
		{func(c *Config) { c.ClientID = "" }, "--oidc-client-id is missing"},
		{func(c *Config) { c.RolesClaim = "" }, "--oidc-roles-claim is missing"},
		{func(c *Config) { c.Roles = nil }, "--oidc-role is missing"},
		{func(c *Config) { c.Roles = []string{"admins"} }, `--oidc-role "admins": write it as`},
		{func(c *Config) { c.Roles = []string{"=admin"} }, `--oidc-role "=admin": write it as`},
		{func(c *Config) { c.Roles = []string{"admins=root"} }, `there is no role "root"`},
		{func(c *Config) { c.Roles = []string{"admins=admin@Team A"} }, `"Team A" is no namespace`},
		{func(c *Config) { c.Public = "http://pawl.example.com" }, "--public-url"},
		{func(c *Config) { c.Public = "https://example.com/pawl" }, "leave the path out"},
	} {
		cfg := d.config()
		c.change(&cfg)
		if _, err := New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %s", err, c.says)
		}
	}
}

// TestBegin checks where somebody is sent to sign in, with what, and that a browser stays on this server then.
func TestBegin(t *testing.T) {
	d := newDesk(t)
	i := d.issuer(func(c *Config) { c.Public, c.Scopes = "https://pawl.example.com/", []string{"groups", "openid"} })
	address, _, err := i.Begin(t.Context(), "/run/x?step=y")
	u, _ := url.Parse(address)
	q := u.Query()
	if err != nil || !strings.HasPrefix(address, d.server.URL+"/auth?") ||
		q.Get("redirect_uri") != "https://pawl.example.com/login/callback" || q.Get("scope") != "openid groups" ||
		q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) < 40 || len(q.Get("state")) < 20 ||
		len(q.Get("nonce")) < 20 {
		t.Errorf("%s, %v", address, err)
	}
	for to, want := range map[string]string{
		"/run/x?step=y": "/run/x?step=y", "": "/", "https://evil.example": "/", "//evil.example": "/",
		`/\evil.example`: "/", "/\t/evil.example": "/", "run": "/", "/" + strings.Repeat("x", longestPath): "/",
	} {
		if got := inside(to); got != want {
			t.Errorf("%q leads to %q", to, got)
		}
	}
}

// TestFinishRefuses checks which answers sign nobody in, before the issuer is asked about them.
func TestFinishRefuses(t *testing.T) {
	d := newDesk(t)
	i := d.issuer(func(c *Config) { c.Public = "https://pawl.example.com" })
	address, kept, err := i.Begin(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(address)
	state := u.Query().Get("state")
	for _, c := range []struct {
		kept, says string
		answer     url.Values
	}{
		{"", "has not begun", url.Values{"state": {state}, "code": {"x"}}},
		{"e30", "has not begun", url.Values{"state": {""}, "code": {"x"}}},
		{kept, "somebody else", url.Values{"code": {"x"}}},
		{kept, "somebody else", url.Values{"state": {"x"}, "code": {"x"}}},
		{kept, "did not sign you in: access_denied no", url.Values{
			"state": {state}, "error": {"access_denied"}, "error_description": {"no"},
		}},
		{kept, "another issuer", url.Values{"state": {state}, "code": {"x"}, "iss": {"https://x"}}},
		{kept, "does not take its own answer", url.Values{"state": {state}, "code": {"x"}}},
	} {
		_, _, err := i.Finish(t.Context(), c.kept, c.answer)
		if api.CodeOf(err) != api.CodeNoToken || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %s", err, c.says)
		}
	}
}
