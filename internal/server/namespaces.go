package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// AddNamespace answers requests for another namespace through its server, which has its own engine and database. The
// listeners, the limits of tokens and the log of requests remain those of s.
func (s *Server) AddNamespace(other *Server) { s.others.Store(other.cfg.Namespace, other) }

// inNamespace returns the server of a request's namespace: that of its token, or the one in the header if the token is
// for all of them.
func (s *Server) inNamespace(r *http.Request, pattern string) (*Server, *httpapi.Problem) {
	c := callerOf(r.Context())
	if pattern == "" || s.roles[pattern] == Anyone {
		return s, nil
	}
	asked := r.Header.Get(httpapi.NamespaceHeader)
	name := namespaceOf(c, asked, s.cfg.Namespace)
	switch {
	case c == nil:
	case c.local || c.token.Namespace == api.AllNamespaces:
		c.whole, c.listener = asked == "", s
	default:
		s.others.Range(func(any, any) bool { c.walled = true; return false })
		if asked != "" && asked != name {
			return s, httpapi.ProblemOf(&api.Error{Code: api.CodeForbidden, Message: fmt.Sprintf(
				"the token %q is for the namespace %q", c.token.Name, name)})
		}
	}
	if c != nil {
		c.namespace = name
	}
	if name == s.cfg.Namespace {
		return s, nil
	}
	other, ok := s.others.Load(name)
	if !ok {
		return s, httpapi.ProblemOf(&api.Error{
			Code: api.CodeNotFound, ID: name, Message: "the server has no such namespace",
			Hint: "namespaces are in the configuration of pawl server",
		})
	}
	return other.(*Server), nil
}

// namespaceOf returns the namespace of a request: that of the caller's token, or, if the caller may work in all of
// them, the one in the request. own is the server's.
func namespaceOf(c *caller, asked, own string) string {
	if c == nil || c.local || c.token.Namespace == api.AllNamespaces {
		return cmp.Or(asked, own)
	}
	return cmp.Or(c.token.Namespace, own)
}

// accessFor returns the tokens and the audit log that the caller may see: those of the request's namespace, or of all
// if the caller may work in all of them and names none. nil: there are none.
func (s *Server) accessFor(ctx context.Context) api.Access {
	c := callerOf(ctx)
	switch {
	case s.cfg.Access == nil:
		return nil
	case s.cfg.Namespace == api.DefaultNamespace && (c == nil || c.whole):
		return s.cfg.Access
	default:
		return s.cfg.Access.Within(s.cfg.Namespace)
	}
}

// metrics serves the metrics of all namespaces to callers who may see them, and to others those of theirs.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	c := callerOf(r.Context())
	if c != nil && !c.whole && (c.walled || r.Header.Get(httpapi.NamespaceHeader) != "") {
		s.cfg.Metrics.Only(s.cfg.Namespace).ServeHTTP(w, r)
		return
	}
	s.cfg.Metrics.ServeHTTP(w, r)
}
