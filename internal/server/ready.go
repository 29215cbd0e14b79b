package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// readWithin is how long the storage may take to answer a server that is ready.
const readWithin = 2 * time.Second

// Drain makes the server tell that it is not ready, so that no new callers are sent to it. It answers those that come.
func (s *Server) Drain() { s.draining.Store(true) }

// ready returns why the server takes no work at present, in its own namespace or in another one.
func (s *Server) ready(ctx context.Context) error {
	err := s.readyItself(ctx)
	s.others.Range(func(name, other any) bool {
		if err == nil {
			if err = other.(*Server).readyItself(ctx); err != nil {
				s.cfg.Log.Warn("a namespace is not ready", "namespace", name, "error", err)
			}
		}
		return err == nil
	})
	return err
}

// readyItself looks at the server's own namespace: whether it stops, the engine has lost a partition, or the storage
// takes no writes or does not answer.
func (s *Server) readyItself(ctx context.Context) error {
	if s.draining.Load() {
		return &api.Error{Code: api.CodeClosed, Message: "the server is stopping", Hint: "ask another one, or later"}
	}
	if s.cfg.Engine != nil {
		if err := s.cfg.Engine(); err != nil {
			return notReady("the engine does not carry all of its partitions", err)
		}
	}
	st, err := s.cfg.Service.Stats(ctx)
	if err == nil && st.Stalled != "" {
		return &api.Error{
			Code: api.CodeStalled, Message: "the storage takes no writes at present: " + st.Stalled,
		}
	}
	within, cancel := context.WithTimeoutCause(ctx, readWithin, errors.New("no answer within "+readWithin.String()))
	defer cancel()
	if err == nil {
		_, err = s.cfg.Service.Runs(within, api.Query{Limit: 1})
	}
	if within.Err() != nil {
		err = context.Cause(within)
	}
	if err != nil {
		return notReady("the storage cannot be read", err)
	}
	return nil
}

// notReady makes the answer of a server that is not ready, whatever the code of the error is.
func notReady(what string, err error) error {
	return &api.Error{Code: api.CodeClosed, Message: fmt.Sprintf("%s: %v", what, err), Err: err}
}
