package remote

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

// TestServed checks which queues count as served: those whose workers ask for tasks, did a moment ago, or are busy.
// After the start that is not known yet.
func TestServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, f := time.Now(), &fakeEngine{}
		q := New(Config{
			Engine: f, Own: []string{"exec"},
			Now: func() core.Time { return core.Time(time.Since(began).Microseconds()) + 1 },
			Run: func(context.Context, string) (*api.Run, error) { return nil, &api.Error{Code: api.CodeNotFound} },
		})
		defer q.Close()
		want := func(what string, queue, taskType string, want bool) {
			t.Helper()
			if got := q.Served(queue, taskType); got != want {
				t.Errorf("%s: %v", what, got)
			}
		}
		want("at first", "reports", "pdf", true)
		<-time.After(servedFor)
		want("nobody came", "reports", "pdf", false)
		if _, err := q.Poll(t.Context(), api.PollRequest{Queue: "reports", Types: []string{"pdf"}}); err != nil {
			t.Fatal(err)
		}
		want("one came", "reports", "pdf", true)
		want("for another type", "reports", "png", false)
		want("for another queue", "other", "pdf", false)
		<-time.After(servedFor)
		want("it is gone", "reports", "pdf", false)
		q.Keep(core.Task{Token: core.Token{Attempt: 1}, Queue: "reports", Type: "pdf"})
		want("one is busy", "reports", "pdf", true)
	})
}
