package issuer

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
)

// Config is the configuration of an issuer. Names of flags are in its errors.
type Config struct {
	URL      string // the issuer, as it calls itself
	ClientID string // the name under which it knows this server
	Secret   string // empty: the client is public, and PKCE alone protects it
	// Public is the address at which browsers reach this server. Empty: nobody signs in, and only tokens of the issuer
	// are accepted.
	Public     string
	Audience   string   // those for whom tokens are that callers show. Default: ClientID
	Scopes     []string // asked for beside openid
	RolesClaim string   // the claim whose values have roles, a path with dots if it is nested
	NameClaim  string   // the claim that is the name of somebody. Default: email, or sub if that is absent
	// Roles gives values of the claim a role, as VALUE=ROLE or VALUE=ROLE@NAMESPACE. The first that fits counts.
	Roles []string

	Log *slog.Logger
	Now func() time.Time
}

// CallbackPath is where the issuer sends a browser back to.
const CallbackPath = "/login/callback"

// rule gives somebody with a value of the claim a role.
type rule struct{ value, role, namespace string }

// check returns the rules of a configuration, or what is wrong with it.
func (c *Config) check() ([]rule, error) {
	if err := checkAddress("--oidc-issuer", c.URL); err != nil {
		return nil, err
	}
	switch {
	case c.ClientID == "":
		return nil, errors.New("--oidc-client-id is missing: it is the name under which the issuer knows this server")
	case c.RolesClaim == "":
		return nil, errors.New("--oidc-roles-claim is missing: it is the claim of a token that decides the role, " +
			"such as groups")
	case len(c.Roles) == 0:
		return nil, errors.New("--oidc-role is missing, so nobody would have a role: write it as VALUE=ROLE, such as " +
			"admins=admin@*")
	}
	if c.Public != "" {
		if err := checkAddress("--public-url", c.Public); err != nil {
			return nil, err
		}
		if u, _ := url.Parse(c.Public); strings.Trim(u.Path, "/") != "" { // it was read just now
			return nil, fmt.Errorf("--public-url %q: the page is at the root of its host; leave the path out", c.Public)
		}
	}
	c.Audience = cmp.Or(c.Audience, c.ClientID)
	c.Public = strings.TrimRight(c.Public, "/")
	c.Scopes = append([]string{oidc.ScopeOpenID}, slices.DeleteFunc(slices.Clone(c.Scopes), func(s string) bool {
		return s == oidc.ScopeOpenID || s == ""
	})...)
	var rules []rule
	for _, text := range c.Roles {
		r, err := readRule(text)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// readRule reads VALUE=ROLE@NAMESPACE. The value may have = in it.
func readRule(text string) (rule, error) {
	at := strings.LastIndexByte(text, '=')
	if at <= 0 {
		return rule{}, fmt.Errorf("--oidc-role %q: write it as VALUE=ROLE or VALUE=ROLE@NAMESPACE", text)
	}
	r := rule{value: text[:at]}
	var said bool
	if r.role, r.namespace, said = strings.Cut(text[at+1:], "@"); !said {
		r.namespace = api.DefaultNamespace
	}
	if !slices.Contains(api.Roles(), r.role) {
		return rule{}, fmt.Errorf("--oidc-role %q: there is no role %q; there are %s", text, r.role,
			strings.Join(api.Roles(), ", "))
	}
	if r.namespace != api.AllNamespaces {
		if err := access.CheckNamespace(r.namespace); err != nil {
			return rule{}, fmt.Errorf("--oidc-role %q: %w", text, err)
		}
	}
	return r, nil
}

// checkAddress refuses an address that is not a URL, and one beyond loopback without encryption.
func checkAddress(flag, text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%s %q: write it as https://login.example.com", flag, text)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("%s %q: it has no query, no fragment and no user", flag, text)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return fmt.Errorf("%s %q: only https protects what people sign in with; http is for this machine alone", flag,
			text)
	}
	return nil
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// hostOf returns the host of an address, for people.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	host, _, err := net.SplitHostPort(u.Host)
	if err != nil {
		return u.Host
	}
	return host
}
