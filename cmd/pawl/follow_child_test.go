package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
)

// lateChild is a service with a parent whose child begins in another partition: the first one to ask is told that there
// is no such run. late: the child begins; otherwise it never does.
type lateChild struct {
	api.Service
	late  bool
	asked chan struct{} // closed when somebody has asked for the child
}

func (s *lateChild) Watch(ctx context.Context, id string, _ int, fn func(api.Event) error) error {
	switch {
	case id == "parent":
		if err := fn(api.Event{Run: id, Type: api.EventAttemptStarted, Child: "child"}); err != nil {
			return err
		}
		select {
		case <-s.asked:
		case <-ctx.Done():
		}
		return ctx.Err()
	case isAsked(s.asked) && s.late:
		return fn(api.Event{Run: id, Type: "run.started"})
	case !isAsked(s.asked):
		close(s.asked)
	}
	return &api.Error{Code: api.CodeNotFound, Message: fmt.Sprintf("there is no run %q", id)}
}

func (s *lateChild) Run(_ context.Context, id string) (*api.Run, error) {
	return &api.Run{RunSummary: api.RunSummary{Run: id, Phase: api.RunSucceeded}}, nil
}

func isAsked(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestFollowLateChild checks that a child that does not exist when its parent names it is followed once it begins, and
// is left out if it never does.
func TestFollowLateChild(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{true, false} {
		var out bytes.Buffer
		a := &app{streams: streams{Out: &out, Err: &out}}
		f := a.newFollower(&lateChild{late: late, asked: make(chan struct{})}, nil, tellJSON)
		if err := f.follow(t.Context(), []string{"parent"}); err != nil {
			t.Fatalf("late %t: %v", late, err)
		}
		if told := strings.Contains(out.String(), `"run":"child"`); told != late {
			t.Errorf("late %t: told of the child: %t\n%s", late, told, &out)
		}
	}
}
