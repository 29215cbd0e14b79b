package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/schedules"
)

// Access keeps tokens and the audit log.
type Access interface {
	api.Access
	// Authenticate returns the token whose text a caller shows. Errors: CodeNoToken, CodeStalled.
	Authenticate(ctx context.Context, text string) (api.ShownToken, error)
	// Counts returns an error if a token that was shown before is no longer valid. Errors: as Authenticate.
	Counts(ctx context.Context, token api.Token) error
	// Check reads the tokens as a request does, and returns why they cannot be read.
	Check(ctx context.Context) error
	// The method Within returns the view of one namespace.
	Within(namespace string) api.Access
	// Record adds an entry to the audit log.
	Record(e api.Audited)
	// SignIn makes a token for the browser of a person whom an issuer knows.
	SignIn(ctx context.Context, who api.Token, lasts time.Duration) (api.Token, error)
}

// Anyone is the role of a route that asks for no token.
const Anyone = "anyone"

// includes reports whether a role may do what a route that asks for another one does.
func includes(role, asked string) bool {
	switch role {
	case api.RoleAdmin:
		return true
	case api.RoleOperate:
		return asked == api.RoleOperate || asked == api.RoleRead
	default:
		return role == asked
	}
}

// caller is who makes a request.
type caller struct {
	token api.Token
	// unchecked: the token is known, and the storage could not be asked whether it still counts.
	unchecked bool

	shows bool // the request has a token, whether it counts or not
	local bool // a command on the server's machine, through the socket beside the database
	node  bool // another node of the cluster, which has asked its own caller for a token
	from  string
	// namespace is the namespace of the request. walled is set if the server has others, which the token may not use.
	namespace string
	walled    bool
	whole     bool // the caller may work in all namespaces, and names none
	// listener is the server that knows all namespaces. nil: the caller may work in one.
	listener *Server
}

// localActor is the actor of requests through the socket, in the audit log.
const localActor = "local"

func (c *caller) name() string {
	if c.local {
		return localActor
	}
	return c.token.Name
}

type callerKey struct{}

type nodeKey struct{}

// ForNodes answers the other nodes of a cluster. They have asked for tokens, and have the audit log.
func (s *Server) ForNodes() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Handler().ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), nodeKey{}, true)))
	})
}

// callerOf returns who makes a request, or nil if it was not asked.
func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

// admit finds out who makes a request, and refuses it if that one may not. It returns the request with its caller in
// it.
func (s *Server) admit(r *http.Request, pattern string) (*http.Request, *httpapi.Problem) {
	if s.cfg.Allow != nil && !s.cfg.Allow(r) {
		return r, httpapi.ProblemOf(&api.Error{
			Code: api.CodeNoToken, Message: "the program that serves this does not let you do it",
		})
	}
	if !s.cfg.Guarded {
		return r, nil
	}
	c := &caller{from: r.RemoteAddr}
	asked, stated := s.roles[pattern]
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	c.node = r.Context().Value(nodeKey{}) != nil
	c.shows = s.desk.shown(r) != ""
	switch c.local = c.node || addr != nil && addr.Network() == "unix"; {
	case c.local, asked == Anyone:
		return r.WithContext(context.WithValue(r.Context(), callerKey{}, c)), nil
	case s.cfg.Access == nil:
		return r, httpapi.ProblemOf(&api.Error{Code: api.CodeNoToken, Message: "this server has no tokens"})
	}
	text := s.desk.shown(r)
	if text == "" {
		return r, httpapi.ProblemOf(&api.Error{
			Code: api.CodeNoToken, Message: "this server asks for a token",
			Hint: "send Authorization: Bearer TOKEN; the command takes --token-file FILE",
		})
	}
	shown, err := s.cfg.Access.Authenticate(r.Context(), text)
	if err != nil {
		s.noteDamage(err)
		if c.token = shown.Token; c.token.Name != "" { // somebody without a role
			r = r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
		}
		return r, httpapi.ProblemOf(err)
	}
	c.token, c.unchecked = shown.Token, shown.Unchecked
	c.namespace = namespaceOf(c, r.Header.Get(httpapi.NamespaceHeader), s.cfg.Namespace) // also of refused requests
	r = r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
	if pattern == "" { // there is no such route
		return r, nil
	}
	if !stated {
		return r, httpapi.ProblemOf(&api.Error{
			Code: api.CodeForbidden, Message: "no role is stated for " + pattern + ", so nobody may use it",
		})
	}
	if !includes(c.token.Role, asked) {
		return r, httpapi.ProblemOf(&api.Error{Code: api.CodeForbidden, Message: fmt.Sprintf(
			"the token %q has the role %s, and this asks for %s", c.token.Name, c.token.Role, asked)})
	}
	return r, nil
}

// bearerOf returns the token in the header of a request, empty if there is none.
func bearerOf(r *http.Request) string {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(text)
}

// audited reports whether requests of a route with that role are in the audit log: all changes except those of workers.
// Those are in the histories of runs, and there are many of them.
func audited(r *http.Request, role string) bool {
	return r.Method != http.MethodGet && (role == api.RoleOperate || role == api.RoleAdmin)
}

// audit adds a request that was answered to the audit log, if it belongs there. What a token was refused does.
func (s *Server) audit(r *http.Request, pattern string, status int, id string) {
	c := callerOf(r.Context())
	refused := status == http.StatusForbidden && c != nil && !c.local
	if s.cfg.Access == nil || c == nil || c.node || !refused && !audited(r, s.roles[pattern]) {
		return
	}
	s.cfg.Access.Record(api.Audited{
		Actor: c.name(), Token: c.token.ID, Namespace: c.namespace, Method: r.Method, Path: r.URL.Path,
		Status: status, Request: id, From: c.from, Unchecked: c.unchecked,
	})
}

// signed is a service that records in the histories of runs who has made a request, according to the token. A caller's
// own name is kept beside that, and does not replace it.
type signed struct {
	api.Service
	mayStart func() error
}

// actor returns the actor for the requests of a caller.
func actor(ctx context.Context, said string) string {
	c := callerOf(ctx)
	switch {
	case c == nil || c.local:
		return said
	case said == "" || said == c.token.Name:
		return c.token.Name
	default:
		return c.token.Name + " (" + said + ")"
	}
}

// Start implements api.Service. A flow of the caller's own can execute any command as the server, so it takes an admin.
func (s signed) Start(ctx context.Context, r api.StartRequest) (api.Started, error) {
	if err := s.mayStart(); err != nil {
		return api.Started{}, err
	}
	r.Actor = actor(ctx, r.Actor)
	return s.Service.Start(ctx, r)
}

func (s signed) Send(ctx context.Context, name string, e api.SendRequest) error {
	if err := mayBring(ctx, schedules.BringsChange(e.Name, e.Payload)); err != nil {
		return err
	}
	e.Actor = actor(ctx, e.Actor)
	return s.Service.Send(ctx, name, e)
}

func (s signed) Operate(ctx context.Context, name string, op api.Operation) error {
	op.Actor = actor(ctx, op.Actor)
	return s.Service.Operate(ctx, name, op)
}

func (s signed) Restart(ctx context.Context, name string, r api.RestartRequest) (api.Started, error) {
	if err := s.mayStart(); err != nil {
		return api.Started{}, err
	}
	r.Actor = actor(ctx, r.Actor)
	return s.Service.Restart(ctx, name, r)
}

// mayBring refuses a flow that a caller sends along, because its steps execute any command as the server.
func mayBring(ctx context.Context, flow bool) error {
	c := callerOf(ctx)
	switch {
	case !flow || c == nil || c.local || c.token.Role == api.RoleAdmin && !c.walled:
		return nil
	case c.token.Role == api.RoleAdmin: // these commands could read the databases of the other namespaces
		return &api.Error{
			Code: api.CodeForbidden,
			Message: fmt.Sprintf("the token %q is for one namespace: it may start the flows that the server has, and "+
				"not bring one, whose steps execute commands there", c.token.Name),
			Hint: "put the flow into the namespace's folder and start it by its name, or use an admin's token for " +
				"all namespaces",
		}
	}
	return &api.Error{
		Code: api.CodeForbidden,
		Message: fmt.Sprintf("the token %q may start the flows that the server has, and not bring one: its steps "+
			"execute commands there", c.token.Name),
		Hint: "put the flow into the server's folder and start it by its name, or use an admin's token",
	}
}

// mayTake refuses a poll of a queue that a worker's token does not have.
func mayTake(ctx context.Context, queue string) error {
	c := callerOf(ctx)
	if c == nil || len(c.token.Queues) == 0 || slices.Contains(c.token.Queues, queue) {
		return nil
	}
	return &api.Error{Code: api.CodeForbidden, ID: queue, Message: fmt.Sprintf(
		"the token %q is for the queues %s, and not for %q", c.token.Name, strings.Join(c.token.Queues, ", "), queue)}
}

// accessRoutes adds tokens and the audit log.
func (s *Server) accessRoutes(a huma.API) {
	none := httpapi.ProblemOf(&api.Error{Code: api.CodeReadOnly, Message: "this server keeps no tokens"})
	op := under(api.RoleAdmin, "POST", "/tokens", "createToken", "access", "Make a token")
	op.DefaultStatus = http.StatusCreated
	op.Description = "The answer has the token, which is never shown again."
	huma.Register(a, op, func(ctx context.Context, in *struct{ Body api.TokenRequest }) (*answered[api.Token], error) {
		access := s.accessFor(ctx)
		if access == nil {
			return nil, none
		}
		return body(access.CreateToken(ctx, in.Body))
	})
	huma.Register(a, under(api.RoleAdmin, "GET", "/tokens", "listTokens", "access", "List tokens"),
		func(ctx context.Context, _ *struct{}) (*answered[httpapi.TokenList], error) {
			access := s.accessFor(ctx)
			if access == nil {
				return nil, none
			}
			all, err := access.Tokens(ctx)
			return body(httpapi.TokenList{Tokens: all}, err)
		})
	op = under(api.RoleAdmin, "DELETE", "/tokens/{token}", "revokeToken", "access", "Revoke a token")
	op.DefaultStatus = http.StatusNoContent
	huma.Register(a, op, func(ctx context.Context, in *struct {
		Token string `path:"token" doc:"Its name or id."`
	},
	) (*struct{}, error) {
		access := s.accessFor(ctx)
		if access == nil {
			return nil, none
		}
		return done(access.RevokeToken(ctx, in.Token))
	})
	huma.Register(a, under(api.RoleAdmin, "GET", "/audit", "listAudit", "access",
		"List the audit log, the newest entry first"),
		func(ctx context.Context, in *struct {
			Actor  string  `query:"actor" doc:"Entries of this actor: the name of a token, or local."`
			Since  instant `query:"since" doc:"Entries of this instant or later."`
			Limit  int     `query:"limit" minimum:"1" maximum:"1000" doc:"How many at most; default 100."`
			Cursor string  `query:"cursor" doc:"Next of the page before."`
		},
		) (*answered[api.AuditPage], error) {
			access := s.accessFor(ctx)
			if access == nil {
				return nil, none
			}
			return body(access.Audit(ctx, api.AuditQuery{
				Actor: in.Actor, Since: in.Since.Time, Limit: in.Limit, Cursor: in.Cursor,
			}))
		})
}
