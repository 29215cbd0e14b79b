package service

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// following is one stream of changes, and what it has brought.
type following struct {
	cancel context.CancelFunc
	done   chan error
	mu     sync.Mutex
	got    []api.Change
}

func follow(t *testing.T, c *Changes, q api.Query, after string) *following {
	ctx, cancel := context.WithCancel(t.Context())
	f := &following{cancel: cancel, done: make(chan error, 1)}
	go func() {
		f.done <- c.Changes(ctx, q, after, func(one api.Change) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.got = append(f.got, one)
			return nil
		})
	}()
	synctest.Wait()
	return f
}

// end ends the stream and returns what it brought.
func (f *following) end(t *testing.T) []api.Change {
	t.Helper()
	f.cancel()
	if err := <-f.done; api.CodeOf(err) != api.CodeCancelled {
		t.Errorf("a stream that was left ends with %v", err)
	}
	return f.got
}

// seen returns the events of some changes: their runs, numbers and types.
func seen(changes []api.Change) (out []string) {
	for _, c := range changes {
		if c.Event != nil {
			out = append(out, c.Event.Run+" "+c.Event.Type)
		}
	}
	return out
}

func (b *bed) changes() *Changes {
	c := b.run.Changes(b.engine, slog.New(slog.DiscardHandler))
	b.Cleanup(c.Close)
	return c
}

// TestChangesOfAll checks that a stream gets the events of all runs, each once and in the order of its run, also over a
// pause.
func TestChangesOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		c := b.changes()
		before := b.start(api.StartRequest{})
		<-time.After(time.Second) // it waits for its next attempt
		whole := follow(t, c, api.Query{}, "")
		part := follow(t, c, api.Query{}, "")
		var runs []string
		for range 3 {
			runs = append(runs, b.start(api.StartRequest{}))
			<-time.After(time.Minute)
		}
		first := part.end(t)
		<-time.After(30 * time.Second)
		second := follow(t, c, api.Query{}, first[len(first)-1].ID)
		<-time.After(time.Hour) // all of them end
		synctest.Wait()
		rest := second.end(t)
		if rest[0].Missed || rest[0].Event != nil {
			t.Errorf("a stream that goes on begins with %+v", rest[0])
		}
		all := seen(whole.end(t))
		if both := append(seen(first), seen(rest)...); !slices.Equal(all, both) {
			t.Errorf("one stream brought\n%v\ntwo brought\n%v", all, both)
		}
		for _, run := range runs {
			var want, got []string
			err := b.run.Watch(t.Context(), run, 0, func(ev api.Event) error {
				want = append(want, run+" "+ev.Type)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range all {
				if one[:len(run)] == run {
					got = append(got, one)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("of run %s came\n%v, want\n%v", run, got, want)
			}
		}
		if !slices.ContainsFunc(all, func(one string) bool { return one[:len(before)] == before }) {
			t.Error("nothing came of a run that had begun before")
		}
	})
}

// TestChangesOfAQuery checks that a stream of a query is told when a run comes to be selected, and when it is not any
// more.
func TestChangesOfAQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		c := b.changes()
		retrying := follow(t, c, api.Query{Retrying: true}, "")
		labelled := follow(t, c, api.Query{Labels: map[string]string{"n": "1"}, Workflow: "order"}, "")
		other := follow(t, c, api.Query{Workflow: "other"}, "")
		one := b.start(api.StartRequest{Labels: map[string]string{"n": "1"}})
		b.start(api.StartRequest{})
		<-time.After(2 * time.Hour)
		synctest.Wait()
		left := map[string]int{}
		for _, change := range retrying.end(t) {
			switch {
			case change.Event == nil:
			case change.Left:
				left[change.Run.Run]++
			case !change.Run.Retrying || change.Event.Run != change.Run.Run:
				t.Errorf("told of a run that is not retried: %+v", change)
			case left[change.Run.Run] > 0:
				t.Errorf("told again of a run that was left: %+v", change.Event)
			}
		}
		if len(left) != 2 {
			t.Errorf("runs that were left: %v", left)
		}
		got := labelled.end(t)
		if last := got[len(got)-1]; last.Event.Type != "run.succeeded" && last.Event.Type != "run.timed_out" &&
			last.Event.Type != "run.failed" {
			t.Errorf("the last event is %s", last.Event.Type)
		}
		for _, change := range got[1:] {
			if change.Event.Run != one {
				t.Errorf("told of another run: %+v", change)
			}
		}
		if got := other.end(t); len(got) != 1 {
			t.Errorf("told of another workflow: %+v", got[1:])
		}
		for _, q := range []api.Query{
			{WillMiss: true},
			{Stuck: true},
			{Limit: 3},
			{Input: map[string]string{"a": "b"}},
			{Parent: "w"},
			{Phases: []api.RunPhase{"asleep"}},
		} {
			b.code("a query that is not for streams", c.Changes(t.Context(), q, "", nil), api.CodeInvalid)
		}
		b.code("a forged id", c.Changes(t.Context(), api.Query{}, "7", nil), api.CodeInvalid)
	})
}

// TestChangesThatAreMissed checks that who comes back too late, or reads too slowly, is told so; nobody fills the
// memory or the journal.
func TestChangesThatAreMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		c := b.changes()
		early := follow(t, c, api.Query{}, "").end(t)
		slow := make(chan struct{})
		cut := make(chan error, 1)
		go func() {
			cut <- c.Changes(t.Context(), api.Query{}, "", func(change api.Change) error {
				if change.Event != nil {
					<-slow
				}
				return nil
			})
		}()
		synctest.Wait()
		for range 500 {
			b.start(api.StartRequest{})
		}
		<-time.After(2 * time.Hour)
		synctest.Wait()
		c.mu.Lock()
		if n := len(c.kept); n > mostChanges || n < mostChanges/2 {
			t.Errorf("%d changes are kept", n)
		}
		c.mu.Unlock()
		close(slow)
		b.code("a slow reader", <-cut, api.CodeLapsed)
		late := follow(t, c, api.Query{}, early[0].ID).end(t)
		if len(late) != 1 || !late[0].Missed {
			t.Errorf("who comes back too late is told %+v", late)
		}
		if again := follow(t, c, api.Query{}, late[0].ID).end(t); again[0].Missed {
			t.Error("who comes back in time is told that something is missing")
		}
		<-time.After(2 * changesIdle) // nobody follows any more
		synctest.Wait()
		if c.ended != nil {
			t.Error("the feed is read although nobody follows")
		}
		if again := follow(t, c, api.Query{}, late[0].ID).end(t); !again[0].Missed {
			t.Error("nothing was read meanwhile, and that is not told")
		}
		c.Close()
		b.code("closed", c.Changes(t.Context(), api.Query{}, "", nil), api.CodeClosed)
	})
}
