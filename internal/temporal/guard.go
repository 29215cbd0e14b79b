package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/internal/api"
)

// Access knows the tokens of a server, and keeps its audit log.
type Access interface {
	// Authenticate returns the token whose text a caller shows. Errors: CodeNoToken, CodeStalled, CodeForbidden.
	Authenticate(ctx context.Context, text string) (api.ShownToken, error)
	// Counts returns an error if a token that was shown before is no longer valid. Errors: as Authenticate.
	Counts(ctx context.Context, token api.Token) error
	// Tokens lists the tokens.
	Tokens(ctx context.Context) ([]api.Token, error)
	// Record adds an entry to the audit log.
	Record(e api.Audited)
}

// Guard decides who may ask what. Its methods may be called on nil, which admits everybody.
type Guard struct {
	Access Access
	// Always: each caller shows a token, also while the server has none.
	Always bool
	// Begin counts a request of a token, or refuses it; waits: it may stay open for long. end is called when the
	// request has ended. nil: nothing is counted.
	Begin func(token api.Token, waits bool) (end func(), err error)

	mu     sync.Mutex
	asks   bool // the server has tokens
	looked time.Time
	open   map[string]map[*opened]bool // requests that stay open for long, by the ids of their tokens
}

// opened is a request that stays open for long.
type opened struct {
	token  api.Token
	cancel context.CancelCauseFunc
}

const (
	// lookEvery is how often the guard looks whether the server has tokens, while it had none.
	lookEvery = time.Second
	// countsEvery is how often the guard looks whether the tokens of open requests still count.
	countsEvery = time.Second
)

// asked is what a caller asks for.
type asked struct {
	method    string // the full one, with its service
	namespace string
	req       any
}

// name returns the name of the method without its service.
func (a asked) name() string { return a.method[strings.LastIndexByte(a.method, '/')+1:] }

// caller is who asks.
type caller struct {
	token     api.Token // zero: nobody was asked for one
	unchecked bool      // the storage could not be asked whether the token still counts
	from      string
}

type callerKey struct{}

// callerOf returns who asks; nil: nobody was asked for a token.
func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

// enters reports whether a caller may use a namespace.
func (c *caller) enters(namespace string) bool {
	return c == nil || c.token.Namespace == "" || c.token.Namespace == api.AllNamespaces ||
		c.token.Namespace == namespace
}

// localActor is the actor in the audit log where no token is asked for: only this machine reaches the server then.
const localActor = "local"

func (c *caller) name() string {
	if c.token.ID == "" {
		return localActor
	}
	return c.token.Name
}

// actor returns who does something, for the history of a run: the bearer of the token, with what the caller says of
// itself.
func actor(ctx context.Context, identity string) string {
	switch c := callerOf(ctx); {
	case c == nil || c.token.ID == "":
		return identity
	case identity == "" || identity == c.token.Name:
		return c.token.Name
	default:
		return c.token.Name + " (" + identity + ")"
	}
}

// admit finds out who asks, and refuses what that one may not do. The context that it returns ends when the caller's
// token is revoked, and end has to be called with the error that the request was answered with.
func (g *Guard) admit(ctx context.Context, a asked) (_ context.Context, end func(error), err error) {
	if g == nil {
		return ctx, func(error) {}, nil
	}
	c := &caller{}
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		c.from = p.Addr.String()
	}
	if err := g.identify(ctx, c); err != nil {
		return ctx, nil, err
	}
	if err := c.may(a); err != nil {
		g.audit(c, a, err)
		return ctx, nil, err
	}
	ctx = context.WithValue(ctx, callerKey{}, c)
	waits := waiting[a.name()]
	done := func() {}
	if g.Begin != nil && c.token.ID != "" {
		if done, err = g.Begin(c.token, waits); err != nil {
			return ctx, nil, err
		}
	}
	unwatch := func() {}
	if waits && c.token.ID != "" {
		ctx, unwatch = g.watch(ctx, c.token)
	}
	return ctx, func(err error) {
		unwatch()
		done()
		g.audit(c, a, err)
	}, nil
}

// identify finds out who a caller is.
func (g *Guard) identify(ctx context.Context, c *caller) error {
	text := bearerOf(ctx)
	if text == "" {
		asks, err := g.asksAll(ctx)
		if err != nil {
			return err
		}
		if asks {
			return status.Error(codes.Unauthenticated, "this server asks for a token: give the client an API key, "+
				"which is a token that pawl token create makes")
		}
		return nil
	}
	shown, err := g.Access.Authenticate(ctx, text)
	if err != nil {
		asks, failed := g.asksAll(ctx)
		if failed == nil && !asks && api.CodeOf(err) == api.CodeNoToken {
			return nil // a client that shows any key to a server without tokens
		}
		return err
	}
	c.token, c.unchecked = shown.Token, shown.Unchecked
	return nil
}

// bearerOf returns the token that a caller shows; empty: none.
func bearerOf(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, v := range md.Get("authorization") {
		if scheme, text, _ := strings.Cut(v, " "); strings.EqualFold(scheme, "Bearer") {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// asksAll reports whether each caller has to show a token: where others than this machine reach the server, or once it
// has tokens. A server that had some asks until it is started again, so that nobody opens it by revoking the last one.
func (g *Guard) asksAll(ctx context.Context) (bool, error) {
	if g.Always {
		return true, nil
	}
	g.mu.Lock()
	asks, fresh := g.asks, time.Since(g.looked) < lookEvery
	g.mu.Unlock()
	if asks || fresh {
		return asks, nil
	}
	tokens, err := g.Access.Tokens(ctx)
	if err != nil {
		return true, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looked = time.Now()
	g.asks = g.asks || len(tokens) > 0
	return g.asks, nil
}

// may refuses what a caller's token does not allow.
func (c *caller) may(a asked) error {
	if c.token.ID == "" {
		return nil
	}
	roles, listed := allowed[a.name()]
	switch {
	case !listed:
		roles = []string{api.RoleAdmin}
	case len(roles) == 0: // whoever has a token
		return c.mayEnter(a)
	}
	if c.token.Role != api.RoleAdmin && !slices.Contains(roles, c.token.Role) {
		return serviceerror.NewPermissionDenied(fmt.Sprintf("the token %q has the role %s, and %s asks for %s",
			c.token.Name, c.token.Role, a.name(), strings.Join(roles, " or ")), "")
	}
	if err := c.mayEnter(a); err != nil {
		return err
	}
	return c.mayTake(a)
}

func (c *caller) mayEnter(a asked) error {
	if c.enters(a.namespace) || a.name() == "ListNamespaces" || a.name() == "GetSystemInfo" {
		return nil
	}
	return serviceerror.NewPermissionDenied(fmt.Sprintf("the token %q is for the namespace %s, and not for %s",
		c.token.Name, c.token.Namespace, a.namespace), "")
}

// mayTake refuses a poll of a queue that a worker's token does not have. A sticky queue is that of a worker of another
// one.
func (c *caller) mayTake(a asked) error {
	polled := polledQueue(a.req)
	if polled == nil || len(c.token.Queues) == 0 {
		return nil
	}
	queue := cmp.Or(polled.GetNormalName(), polled.GetName())
	if slices.Contains(c.token.Queues, queue) {
		return nil
	}
	return serviceerror.NewPermissionDenied(fmt.Sprintf("the token %q is for the queues %s, and not for %q",
		c.token.Name, strings.Join(c.token.Queues, ", "), queue), "")
}

// watch returns a context that ends when a token does not count any more. Call unwatch when the request has ended.
func (g *Guard) watch(ctx context.Context, token api.Token) (_ context.Context, unwatch func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	o := &opened{token, cancel}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = map[string]map[*opened]bool{}
	}
	if len(g.open) == 0 {
		time.AfterFunc(countsEvery, g.look)
	}
	if g.open[token.ID] == nil {
		g.open[token.ID] = map[*opened]bool{}
	}
	g.open[token.ID][o] = true
	return ctx, func() {
		cancel(nil)
		g.mu.Lock()
		defer g.mu.Unlock()
		if delete(g.open[token.ID], o); len(g.open[token.ID]) == 0 {
			delete(g.open, token.ID)
		}
	}
}

// look ends the open requests of tokens that do not count any more, as long as there are open ones.
func (g *Guard) look() {
	g.mu.Lock()
	var tokens []api.Token
	for _, all := range g.open {
		for o := range all {
			tokens = append(tokens, o.token)
			break
		}
	}
	g.mu.Unlock()
	for _, t := range tokens {
		err := g.Access.Counts(context.Background(), t)
		if api.CodeOf(err) != api.CodeNoToken {
			continue // while the storage does not answer, they go on
		}
		g.mu.Lock()
		for o := range g.open[t.ID] {
			o.cancel(err)
		}
		g.mu.Unlock()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.open) > 0 {
		time.AfterFunc(countsEvery, g.look)
	}
}

// audit adds a request that was answered to the audit log: what was changed, but by workers, and what was refused.
func (g *Guard) audit(c *caller, a asked, err error) {
	denied := errors.As(err, new(*serviceerror.PermissionDenied))
	roles := allowed[a.name()]
	changes := slices.Equal(roles, operates) || slices.Equal(roles, administers)
	if !denied && !changes {
		return
	}
	path := "/temporal/" + a.name()
	if id := workflowOf(a.req); id != "" {
		path += "/" + id
	}
	g.Access.Record(api.Audited{
		Actor: c.name(), Token: c.token.ID, Namespace: a.namespace, Method: http.MethodPost, Path: path,
		Status: httpStatus(err), From: c.from, Unchecked: c.unchecked,
	})
}
