package issuer

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/pawl-dev/pawl/internal/api"
)

// begun is the data that a browser keeps during a sign-in. Only who has it can finish.
type begun struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"` // the secret of PKCE
	To       string `json:"to"`       // the path for the browser after that
}

// Name returns the name of the issuer for people.
func (i *Issuer) Name() string { return hostOf(i.cfg.URL) }

// SignsIn reports whether browsers sign in here.
func (i *Issuer) SignsIn() bool { return i.cfg.Public != "" }

// Secure reports whether browsers reach this server with encryption.
func (i *Issuer) Secure() bool { return strings.HasPrefix(i.cfg.Public, "https:") }

// Begin returns the address of the sign-in, and the data that the browser keeps until it comes back. After that it goes
// to the path. Error: CodeStalled.
func (i *Issuer) Begin(ctx context.Context, to string) (address, kept string, err error) {
	f, err := i.find(ctx)
	if err != nil {
		return "", "", &api.Error{Code: api.CodeStalled, Message: err.Error(), Hint: "try again in a moment", Err: err}
	}
	b := begun{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), To: inside(to)}
	text, err := json.Marshal(b)
	if err != nil {
		return "", "", err
	}
	address = f.login.AuthCodeURL(b.State, oidc.Nonce(b.Nonce), oauth2.S256ChallengeOption(b.Verifier))
	return address, base64.RawURLEncoding.EncodeToString(text), nil
}

// longestPath bounds the path that a browser goes to, in bytes: it is in a cookie.
const longestPath = 1000

// inside returns a path of this server, or / if the text is not one.
func inside(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(to, "/") || len(to) > longestPath ||
		strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return "/"
	}
	return to
}

// Finish returns who has signed in, from the browser's data and the issuer's answer, and the next path of the browser.
// Errors: CodeNoToken, CodeForbidden, CodeStalled.
func (i *Issuer) Finish(ctx context.Context, kept string, answer url.Values) (who api.Token, to string, err error) {
	refused := func(format string, args ...any) (api.Token, string, error) {
		return api.Token{}, "", &api.Error{
			Code: api.CodeNoToken, Message: fmt.Sprintf(format, args...), Hint: "sign in again",
		}
	}
	var b begun
	text, err := base64.RawURLEncoding.DecodeString(kept)
	if err != nil || json.Unmarshal(text, &b) != nil || b.State == "" {
		return refused("this browser has not begun to sign in, or too long ago")
	}
	if subtle.ConstantTimeCompare([]byte(b.State), []byte(answer.Get("state"))) != 1 {
		return refused("this is the answer to somebody else, or to another attempt to sign in")
	}
	if code := answer.Get("error"); code != "" {
		return refused("%s did not sign you in: %.100s %.300s", i.Name(), code, answer.Get("error_description"))
	}
	if said := answer.Get("iss"); said != "" && said != i.cfg.URL {
		return refused("this is the answer of another issuer")
	}
	f, err := i.find(ctx)
	if err != nil {
		return api.Token{}, "", &api.Error{Code: api.CodeStalled, Message: err.Error(), Err: err}
	}
	ctx = oidc.ClientContext(ctx, i.client)
	tokens, err := f.login.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(b.Verifier))
	if err != nil {
		return refused("%s does not take its own answer: %.500s", i.Name(), err)
	}
	signed, _ := tokens.Extra("id_token").(string)
	token, c, err := i.verify(ctx, f.signed, signed)
	if err != nil {
		return api.Token{}, "", err
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(b.Nonce)) != 1 {
		return refused("this token was made for another attempt to sign in")
	}
	i.more(ctx, f, tokens, token.Subject, c)
	who, err = i.who(token.Subject, c)
	return who, inside(b.To), err
}

// more adds the claims that the issuer returns only when it is asked, if the roles or the name are not in the token.
func (i *Issuer) more(ctx context.Context, f *found, tokens *oauth2.Token, subject string, c claims) {
	has := c.at(i.cfg.RolesClaim) != nil && c.at(cmp.Or(i.cfg.NameClaim, "email")) != nil
	if has || f.provider.UserInfoEndpoint() == "" {
		return
	}
	info, err := f.provider.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	told := claims{}
	if err == nil && info.Subject == subject {
		err = info.Claims(&told)
	}
	if err != nil {
		i.cfg.Log.Warn("the issuer did not return the other claims of a person", "issuer", i.cfg.URL, "error", err)
		return
	}
	maps.Copy(told, c) // signed claims count
	maps.Copy(c, told)
}
