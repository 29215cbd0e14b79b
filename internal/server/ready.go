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

// Drain makes the server report that it is not ready, so that no new callers are sent to it. It still answers requests.
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
	if damage := s.damage.Load(); damage != nil {
		return notReady("the storage is damaged", *damage)
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
		err = s.readAll(within)
	}
	if within.Err() != nil {
		err = context.Cause(within)
	}
	if err != nil {
		s.noteDamage(err)
		return notReady("the storage cannot be read", err)
	}
	return nil
}

// readAll reads what requests read: the tokens, a document, and a row of the runs.
func (s *Server) readAll(ctx context.Context) error {
	if s.cfg.Access != nil {
		if err := s.cfg.Access.Check(ctx); err != nil {
			return err
		}
	}
	if s.cfg.Answers != nil {
		if _, err := s.cfg.Answers.Recall(ctx, "of nobody"); err != nil {
			return err
		}
	}
	_, err := s.cfg.Service.Runs(ctx, api.Query{Limit: 1})
	return err
}

// noteDamage remembers that the storage is damaged. A later read may succeed, of pages that are in memory.
func (s *Server) noteDamage(err error) {
	if s.cfg.Damaged != nil && s.cfg.Damaged(err) && s.damage.CompareAndSwap(nil, &err) {
		s.cfg.Log.Error("the storage is damaged: the server is not ready until it is started again",
			"id", "storage-damaged", "error", err)
	}
}

// notReady makes the answer of a server that is not ready, whatever the code of the error is.
func notReady(what string, err error) error {
	return &api.Error{Code: api.CodeClosed, Message: fmt.Sprintf("%s: %v", what, err), Err: err}
}
