package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/outbox"
)

var errDown = errors.New("the engine is down")

// downAtFirst is a client that refuses its first calls and tells of each run it starts.
type downAtFirst struct {
	pawl.Client
	refusals int
	started  chan string
}

func (c *downAtFirst) StartRun(ctx context.Context, r client.StartRequest) (client.Started, error) {
	if c.refusals > 0 {
		c.refusals--
		return client.Started{}, errDown
	}
	s, err := c.Client.StartRun(ctx, r)
	c.started <- r.ID
	return s, err
}

// TestRelay runs a relay in virtual time. It tries again what could not be delivered, looks at the table every
// minute, and returns when its context ends.
func TestRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := pawl.Define("double", func(_ pawl.Context, n int) (int, error) { return 2 * n, nil })
		e := openEngine(t, pawl.Config{}, w)
		var log bytes.Buffer
		s := openShop(t, outbox.Config{Every: time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil))})
		start := func(id string, n int) {
			t.Helper()
			if err := outbox.StartIn(t.Context(), s.box, outbox.SQLTx(s), w, id, n); err != nil {
				t.Fatal(err)
			}
		}
		client := &downAtFirst{Client: e, refusals: 2, started: make(chan string)}
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		start("a", 1)
		ended := make(chan error, 1)
		go func() { ended <- s.box.Relay(ctx, client) }()

		for i, want := range []struct {
			id    string
			after time.Duration
		}{
			{"a", 2 * time.Minute}, // two refusals, one at once and one a minute later
			{"b", 3 * time.Minute}, // written when the relay had looked
		} {
			if i > 0 {
				synctest.Wait()
				start(want.id, 2)
			}
			if id := <-client.started; id != want.id || time.Since(begin) != want.after {
				t.Errorf("%s was delivered after %s, want %s after %s", id, time.Since(begin), want.id, want.after)
			}
			if got, err := pawl.RunOf[int](e, want.id).Result(t.Context()); err != nil || got != 2*(i+1) {
				t.Errorf("run %s: %d, %v", want.id, got, err)
			}
		}
		synctest.Wait() // a relay that ends before it has deleted the row delivers it again, which changes nothing
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Relay returned %v", err)
		}
		if n := s.waiting(t); n != 0 {
			t.Errorf("%d messages wait", n)
		}
		if n := strings.Count(log.String(), errDown.Error()); n != 2 {
			t.Errorf("the log names the reason %d times, want 2:\n%s", n, log.String())
		}
	})
}

// TestRelayStopsWhereTheEngineIsClosed checks that no further message is tried in the same pass, and none is lost.
func TestRelayStopsWhereTheEngineIsClosed(t *testing.T) {
	w := pawl.Define("one", func(pawl.Context, int) (int, error) { return 1, nil })
	e := openEngine(t, pawl.Config{}, w)
	s := openShop(t, outbox.Config{})
	const messages = 250
	s.inTx(t, func(tx outbox.Tx) (err error) {
		for n := range messages {
			err = errors.Join(err, outbox.StartIn(t.Context(), s.box, tx, w, "", n))
		}
		return err
	})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	client := &losesAnswers{Client: e, every: messages + 1}
	if err := s.box.RelayOnce(t.Context(), client); !errors.Is(err, pawl.ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
	if tried := client.calls.Load(); tried != 100 || s.waiting(t) != messages {
		t.Errorf("%d messages were tried and %d wait, want one page of 100 and all", tried, s.waiting(t))
	}
}
