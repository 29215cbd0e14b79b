package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shelf is a log that many write to.
type shelf struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *shelf) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

// TestPhotos checks that a crash repeats only what was in flight, and a broken photo is in the report.
func TestPhotos(t *testing.T) {
	log := &shelf{}
	w := (&studio{log, time.Second, 4}).workflow()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, err := w.Start(t.Context(), e, "sea", album{"sea", 20})
		if err != nil {
			t.Fatal(err)
		}
		e.Skip(2500 * time.Millisecond)
		e.Crash()
		e.Skip(6 * time.Second)
		out, err := pawl.RunOf[[]thumbnail](e, r.ID).Result(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, th := range out {
			if broken := i == 12; broken != (th.Problem != "") || broken == (th.URL != "") {
				t.Errorf("%+v", th)
			}
		}
		e.WantAttempts(r.ID, "photos[6]/shrink", 2)
		if n := strings.Count(log.text.String(), "shrink"); n != 19 {
			t.Errorf("%d photos were shrunk", n)
		}
	}, w)
}

// TestPhotosAreCancelled checks that a cancel is not a failure of a photo.
func TestPhotosAreCancelled(t *testing.T) {
	w := (&studio{&shelf{}, time.Second, 4}).workflow()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeStep[int](e, "photos[1]/shrink").Do(func(ctx context.Context, _ client.AttemptInfo) (int, error) {
			<-ctx.Done() // waits until the run ends
			return 0, context.Cause(ctx)
		})
		r, err := w.Start(t.Context(), e, "sea", album{"sea", 20})
		if err != nil {
			t.Fatal(err)
		}
		e.Skip(1500 * time.Millisecond)
		if err := e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpCancel}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Result(t.Context()); !errors.Is(err, pawl.ErrCancelled) {
			t.Error(err)
		}
	}, w)
}
