package service

import (
	"maps"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// TestRestartIsLikeTheFirst checks that a run that is started again has the timeout, the labels, the headers and the
// place in the queue that the first one was given, and counts from its own start.
func TestRestartIsLikeTheFirst(t *testing.T) {
	b := newBed(t)
	first := b.start(api.StartRequest{
		Timeout: &policy.Limit{After: time.Hour, Origin: GivenTimeout},
		Labels:  map[string]string{"customer": "7"}, Headers: map[string]string{"trace": "x"},
		Queue: &api.RunQueue{Name: "orders", Key: "7", Priority: 3},
	})
	if err := b.run.Operate(b.Context(), first, api.Operation{Operation: api.OpTerminate}); err != nil {
		t.Fatal(err)
	}
	again, err := b.run.Restart(b.Context(), first, api.RestartRequest{})
	if err != nil {
		t.Fatal(err)
	}
	r := b.mustRun(b.run, again.Run)
	if !maps.Equal(r.Labels, map[string]string{"customer": "7"}) || !maps.Equal(r.Headers,
		map[string]string{"trace": "x"}) {
		t.Errorf("it has the labels %v and the headers %v", r.Labels, r.Headers)
	}
	if r.Queue == nil || r.Queue.Name != "orders" || r.Queue.Key != "7" {
		t.Errorf("it was started into %+v", r.Queue)
	}
	if got := r.RunLimit.Sub(r.StartedAt); got != time.Hour {
		t.Errorf("it has %s", got)
	}
}
