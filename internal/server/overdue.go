package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

const (
	// lookAfter is when the server checks whether the storage answers, while a request is not answered, and how often.
	lookAfter = 1500 * time.Millisecond
	// lookWithin is how long the storage may take then.
	lookWithin = 500 * time.Millisecond
	// askEvery is how often the server looks whether the token of a request that stays open still counts.
	askEvery = 3 * time.Second
)

// bounded returns a request that ends early with a reason for its caller: the storage does not answer, or the caller's
// token is no longer valid. in is the server of the request's namespace. end has to be called when the request has
// ended.
func (s *Server) bounded(in *Server, r *http.Request, pattern string) (bounded *http.Request, end func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := func() {}
	if wait, known := waitOf(r, pattern); known && s.roles[pattern] != Anyone {
		stop = repeat(wait+lookAfter, lookAfter, func() bool {
			if in.storageAnswers(ctx) {
				return true
			}
			cancel(silent(r.Method))
			return false
		})
	}
	unwatch := func() {}
	if c := callerOf(ctx); c != nil && c.token.ID != "" && mayWait(r, pattern) {
		unwatch = repeat(askEvery, askEvery, func() bool {
			err := s.cfg.Access.Counts(ctx, c.token)
			if api.CodeOf(err) != api.CodeNoToken {
				return true
			}
			cancel(err)
			return false
		})
	}
	return r.WithContext(ctx), func() {
		stop()
		unwatch()
		cancel(nil)
	}
}

// waitOf returns how long a request asks to wait. known is false for a request that has no end of its own, or has its
// wait in its body.
func waitOf(r *http.Request, pattern string) (wait time.Duration, known bool) {
	if !mayWait(r, pattern) {
		return 0, true
	}
	asked := r.URL.Query().Get("wait")
	if asked == "" {
		return 0, false
	}
	d, err := duration.Parse(asked)
	return min(d, waitAtMost), err == nil
}

// silent returns the error of a request that is answered before it is carried out: the storage does not answer.
func silent(method string) error {
	if method == http.MethodGet || method == http.MethodHead {
		return &api.Error{
			Code: api.CodeStalled, Message: "the storage does not answer at present", Hint: "ask again in a moment",
		}
	}
	return &api.Error{
		Code:    api.CodeUncertain,
		Message: "the storage does not answer, so nobody knows yet whether the request is carried out",
		Hint:    "check what happened to it, or send it again with the same Idempotency-Key",
	}
}

// storageAnswers reports whether the storage answers a small question in time. Everybody who asks at once shares the
// answer. A read that goes on, since the storage does not notice that it is too late, holds up nobody.
func (s *Server) storageAnswers(ctx context.Context) bool {
	answer := s.looks.DoChan("", func() (any, error) {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWithin)
		defer cancel()
		st, err := s.cfg.Service.Stats(within)
		if err == nil && st.Stalled == "" {
			_, err = s.cfg.Service.Runs(within, api.Query{Limit: 1})
		}
		return st.Stalled == "" && within.Err() == nil && api.CodeOf(err) != api.CodeStalled, nil
	})
	late := time.NewTimer(lookWithin)
	defer late.Stop()
	select {
	case a := <-answer:
		return a.Val.(bool)
	case <-late.C:
		return false
	}
}

// stillCounts returns an error if the token of a request is no longer valid.
func (s *Server) stillCounts(ctx context.Context) error {
	c := callerOf(ctx)
	if c == nil || c.token.ID == "" {
		return nil
	}
	return s.cfg.Access.Counts(ctx, c.token)
}

// endedFor returns why the server has ended a request, or nil if it has not.
func endedFor(ctx context.Context) *httpapi.Problem {
	var own *api.Error
	if ctx == nil || ctx.Err() == nil || !errors.As(context.Cause(ctx), &own) {
		return nil
	}
	return httpapi.ProblemOf(own)
}

// repeat calls a function after a first interval and then again and again, until it reports false or stop is called.
func repeat(first, every time.Duration, call func() bool) (stop func()) {
	var mu sync.Mutex
	over := false
	mu.Lock()
	defer mu.Unlock()
	var timer *time.Timer
	timer = time.AfterFunc(first, func() {
		again := call()
		mu.Lock()
		defer mu.Unlock()
		if again && !over {
			timer.Reset(every)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		timer.Stop()
	}
}
