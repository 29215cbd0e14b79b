package issuer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/pawl-dev/pawl/internal/api"
)

const (
	// answerWithin is how long the issuer may take to answer a request.
	answerWithin = 5 * time.Second
	// askEvery is how often an issuer is asked at most that did not answer, and how often its keys are read at most:
	// anybody can show a token with the name of a key that does not exist.
	askEvery = 5 * time.Second
)

// Issuer is an issuer of tokens. Its methods are safe for concurrent use.
type Issuer struct {
	cfg    Config
	rules  []rule
	client *http.Client
	flight singleflight.Group // all callers wait for one question

	mu      sync.Mutex
	found   *found
	failure error // why it was not found; it is not asked again for a while
	asked   time.Time
}

// found is the issuer's own description.
type found struct {
	provider *oidc.Provider
	shown    *oidc.IDTokenVerifier // checks tokens that callers show
	signed   *oidc.IDTokenVerifier // verifies the tokens of people who sign in
	login    oauth2.Config
}

// New returns an issuer. One that does not answer is asked again later: people who have signed in go on meanwhile. An
// error in the configuration, or in the issuer's description, is returned.
func New(ctx context.Context, cfg Config) (*Issuer, error) {
	i := &Issuer{client: &http.Client{Timeout: answerWithin}}
	var err error
	if i.rules, err = cfg.check(); err != nil {
		return nil, err
	}
	i.cfg = cfg
	var unanswered *unanswered
	if _, err := i.find(ctx); errors.As(err, &unanswered) {
		cfg.Log.Error("the issuer does not answer; nobody can sign in until it does", "id", "issuer-unanswered",
			"issuer", cfg.URL, "error", err)
	} else if err != nil {
		return nil, err
	}
	return i, nil
}

// unanswered is the error of an issuer that cannot be asked at present.
type unanswered struct {
	url string
	err error
}

func (e *unanswered) Error() string {
	return fmt.Sprintf("the issuer %s does not answer: %v", e.url, e.err)
}
func (e *unanswered) Unwrap() error { return e.err }

// find returns the issuer's description, which is requested once.
func (i *Issuer) find(ctx context.Context) (*found, error) {
	i.mu.Lock()
	f, failure, wait := i.found, i.failure, i.cfg.Now().Sub(i.asked) < askEvery
	i.mu.Unlock()
	switch {
	case f != nil:
		return f, nil
	case failure != nil && wait:
		return nil, failure
	}
	done := i.flight.DoChan("find", func() (any, error) {
		f, err := i.ask()
		i.mu.Lock()
		defer i.mu.Unlock()
		i.found, i.failure, i.asked = f, err, i.cfg.Now()
		return f, err
	})
	select {
	case r := <-done:
		f, _ := r.Val.(*found)
		return f, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask asks the issuer about itself.
func (i *Issuer) ask() (*found, error) {
	ctx := oidc.ClientContext(context.Background(), i.client) // it is kept for later requests
	p, err := oidc.NewProvider(ctx, i.cfg.URL)
	var other *oidc.IssuerMismatchError
	switch {
	case errors.As(err, &other):
		return nil, fmt.Errorf("--oidc-issuer %q: %w; write it as the issuer does", i.cfg.URL, err)
	case err != nil:
		return nil, &unanswered{i.cfg.URL, err}
	}
	var said struct {
		Keys       string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	if err := p.Claims(&said); err != nil {
		return nil, fmt.Errorf("--oidc-issuer %q: what it says about itself: %w", i.cfg.URL, err)
	}
	keys := &http.Client{Timeout: answerWithin, Transport: &seldom{now: i.cfg.Now}}
	set := keySet{oidc.NewRemoteKeySet(oidc.ClientContext(ctx, keys), said.Keys)}
	of := func(audience string) *oidc.IDTokenVerifier {
		return oidc.NewVerifier(i.cfg.URL, set, &oidc.Config{
			ClientID: audience, Now: i.cfg.Now, SupportedSigningAlgs: signing(said.Algorithms),
		})
	}
	return &found{provider: p, shown: of(i.cfg.Audience), signed: of(i.cfg.ClientID), login: oauth2.Config{
		ClientID: i.cfg.ClientID, ClientSecret: i.cfg.Secret, Endpoint: p.Endpoint(), Scopes: i.cfg.Scopes,
		RedirectURL: i.cfg.Public + CallbackPath,
	}}, nil
}

// signing returns the algorithms among those given that use a key which only the issuer has.
func signing(algorithms []string) []string {
	var out []string
	for _, a := range algorithms {
		switch a {
		case oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512,
			oidc.EdDSA:
			out = append(out, a)
		}
	}
	return out
}

// errSeldom is the error of keys that were read just now.
var errSeldom = fmt.Errorf("its keys were read less than %s ago", askEvery)

// seldom sends a request only so often.
type seldom struct {
	now  func() time.Time
	mu   sync.Mutex
	last time.Time
}

func (s *seldom) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	late := s.last.IsZero() || s.now().Sub(s.last) >= askEvery
	if late {
		s.last = s.now()
	}
	s.mu.Unlock()
	if !late {
		return nil, errSeldom
	}
	return http.DefaultTransport.RoundTrip(r)
}

// keySet is the keys of an issuer. It notes in the context of a request why they could not be read: the library reports
// only that the signature is wrong.
type keySet struct{ oidc.KeySet }

type unreadKey struct{}

func (k keySet) VerifySignature(ctx context.Context, text string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, text)
	if unread, ok := ctx.Value(unreadKey{}).(*error); ok {
		*unread = err
	}
	return payload, err
}

// verify returns what a token claims, if it is the issuer's and counts.
func (i *Issuer) verify(ctx context.Context, v *oidc.IDTokenVerifier, text string) (*oidc.IDToken, claims, error) {
	var unread error
	token, err := v.Verify(context.WithValue(ctx, unreadKey{}, &unread), text)
	var old *oidc.TokenExpiredError
	var failed interface{ Timeout() bool } // the request for the keys failed
	switch {
	case errors.As(err, &old):
		return nil, nil, &api.Error{
			Code: api.CodeNoToken, Err: err, Hint: "get a new one from " + i.cfg.URL,
			Message: fmt.Sprintf("the token expired at %s", old.Expiry.UTC().Format(time.RFC3339)),
		}
	case unread != nil && errors.As(unread, &failed) && !errors.Is(unread, errSeldom):
		return nil, nil, &api.Error{
			Code: api.CodeStalled, Err: unread,
			Message: "the keys of the issuer cannot be read, so the token cannot be checked: " + unread.Error(),
		}
	case err != nil:
		return nil, nil, &api.Error{
			Code: api.CodeNoToken, Message: "the token is not one of " + i.cfg.URL + " for this server: " + err.Error(),
			Hint: "its audience is " + i.cfg.Audience, Err: err,
		}
	}
	c := claims{}
	var all json.RawMessage
	if err := token.Claims(&all); err != nil {
		return nil, nil, err
	}
	return token, c, json.Unmarshal(all, &c)
}

// Bearer returns who shows a token of the issuer, and what that person or program may do. Errors: CodeNoToken,
// CodeForbidden (no rule gives the bearer a role), CodeStalled (the issuer cannot be asked).
func (i *Issuer) Bearer(ctx context.Context, text string) (api.Token, error) {
	f, err := i.find(ctx)
	if err != nil {
		return api.Token{}, &api.Error{Code: api.CodeStalled, Message: err.Error(), Err: err}
	}
	token, c, err := i.verify(ctx, f.shown, text)
	if err != nil {
		return api.Token{}, err
	}
	who, err := i.who(token.Subject, c)
	who.CreatedAt, who.ExpiresAt = api.At(token.IssuedAt), api.At(token.Expiry)
	return who, err
}
