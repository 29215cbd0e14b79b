package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// keyed sends a start with a key and a workflow id to the partition of the key. The call is answered later.
func (w *partitionPair) keyed(key, workflowID string, more ...func(*StartRequest)) *StartCall {
	w.t.Helper()
	req := StartRequest{
		Definition: flow("charge", nap(time.Hour)).definition(),
		Start:      core.Start{Input: []byte(`{"n":1}`), WorkflowID: workflowID, Key: key},
	}
	for _, m := range more {
		m(&req)
	}
	home, named, err := Home(&req, 2)
	if err != nil || !named {
		w.t.Fatal(named, err)
	}
	c := &StartCall{Start: req}
	c.ch = make(chan struct{}, 1)
	w.p[home].Handle(c, w.now)
	return c
}

// answered runs the partitions until a call is answered, and returns the answer.
func (w *partitionPair) answered(c *StartCall) (Started, error) {
	w.t.Helper()
	w.settle()
	select {
	case <-c.ch:
		return c.Answer, c.Err
	default:
		w.t.Fatal("the start was not answered")
		return Started{}, nil
	}
}

// runs returns how many runs there are.
func (w *partitionPair) runs() int {
	w.t.Helper()
	w.pass(2 * time.Second) // the view is late
	page, err := w.journal.List(w.t.Context(), journal.Query{Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(page.Runs)
}

// TestOneRunForAKey checks that a key starts one run, whatever workflow ids its starts name, at once or one after the
// other, with and without a restart between, and that the key alone finds it.
func TestOneRunForAKey(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := newPartitionPair(t)
		for key := range 8 {
			name := fmt.Sprint("key-", key)
			var first core.RunID
			for try := range 6 {
				at := fmt.Sprintf("try %d of %s", try, name)
				calls := []*StartCall{
					w.keyed(name, fmt.Sprintf("order-%d-%d", key, try)), w.keyed(name, ""),
					w.keyed(name, fmt.Sprintf("order-%d-%d-b", key, try)),
				}
				for n, c := range calls {
					got, err := w.answered(c)
					switch {
					case err != nil:
						t.Fatalf("%s, call %d: %v", at, n, err)
					case first == core.RunID{}:
						first = got.Run
						if got.Existing {
							t.Errorf("%s: the first start found a run", at)
						}
					case got.Run != first || !got.Existing:
						t.Errorf("%s, call %d: %+v, the first start made %s", at, n, got, first)
					}
				}
				if restart {
					w.crash(0)
					w.crash(1)
				}
			}
			other := func(r *StartRequest) { r.Input = []byte(`{"n":2}`) }
			_, err := w.answered(w.keyed(name, fmt.Sprint("other-", key), other))
			if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), first.String()) {
				t.Errorf("%s with another input: %v", name, err)
			}
		}
		if n := w.runs(); n != 8 {
			t.Errorf("restart %v: %d runs for 8 keys", restart, n)
		}
	}
}

// crash opens a partition anew, without what was not appended.
func (w *partitionPair) crash(n int) {
	w.t.Helper()
	if err := w.p[n].Release(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.p[n].Shut(errors.New("the process died"))
	w.p[n] = NewPartition(w.config(n))
	w.open(n)
}

// elsewhere returns a workflow id whose runs live in another partition than the key.
func elsewhere(key string) string {
	for n := 0; ; n++ {
		id := fmt.Sprint("elsewhere-", n)
		if int(core.KeyOfWorkflowID(id))%2 != int(core.KeyOfKey("charge", key))%2 {
			return id
		}
	}
}

// TestKeyOfARefusedStart checks that a key whose start is refused, because its workflow id is in use, is free again
// for a start with another workflow id, also for one that has waited for the first.
func TestKeyOfARefusedStart(t *testing.T) {
	w := newPartitionPair(t)
	key, id := "key-1", elsewhere("key-1")
	if _, err := w.answered(w.keyed("", id)); err != nil {
		t.Fatal(err)
	}
	refused, waiting := w.keyed(key, id), w.keyed(key, "free-1")
	if _, err := w.answered(refused); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), id) {
		t.Errorf("a start with a workflow id that is in use: %v", err)
	}
	first, err := w.answered(waiting)
	if err != nil || first.Existing {
		t.Fatalf("a start that waited: %+v, %v", first, err)
	}
	if again, err := w.answered(w.keyed(key, id)); err != nil || again.Run != first.Run {
		t.Errorf("the key, which has started %s, finds %+v, %v", first.Run, again, err)
	}
	use := func(r *StartRequest) { r.OnConflict = ConflictUse }
	if found, err := w.answered(w.keyed("key-1b", id, use)); err != nil || !found.Existing || found.Run == first.Run {
		t.Errorf("a start that uses the open run: %+v, %v", found, err)
	}
	if n := w.runs(); n != 2 {
		t.Errorf("%d runs, want 2", n)
	}
}

// TestKeyAcrossCrashes checks that a key starts one run if either partition's process dies at any moment of the first
// start, and the caller starts again with another workflow id.
func TestKeyAcrossCrashes(t *testing.T) {
	for cut := range 12 {
		w := newPartitionPair(t)
		w.keyed("key-1", elsewhere("key-1"))
		steps := 0
		for range 8 { // one commit of one partition is a step
			for n, p := range w.p {
				if f, ok := p.Fetch(w.now); ok && steps < cut {
					in, err := w.journal.Inbox(t.Context(), n, f.After, f.Limit)
					p.Fetched(f, in, err, w.now)
				}
				if steps++; steps > cut {
					break
				}
				if b := p.Cut(w.now); b != nil {
					if err := w.journal.Append(t.Context(), b); err != nil {
						t.Fatal(err)
					}
					p.Committed(w.now)
				}
				w.p[1-n].Expect()
			}
		}
		w.sent = nil
		w.crash(0)
		w.crash(1)
		first, err := w.answered(w.keyed("key-1", "again"))
		if err != nil {
			t.Fatalf("after %d steps: %v", cut, err)
		}
		second, err := w.answered(w.keyed("key-1", "and-again"))
		if err != nil || second.Run != first.Run || !second.Existing {
			t.Errorf("after %d steps: %+v and then %+v, %v", cut, first, second, err)
		}
		if n := w.runs(); n != 1 {
			t.Errorf("after %d steps: %d runs", cut, n)
		}
	}
}

// TestKeyOfARemovedRun checks that a key is free again once its run was removed because it was old, and that its claim
// is removed, too.
func TestKeyOfARemovedRun(t *testing.T) {
	w := newPartitionPair(t)
	key, short := "key-1", flow("charge", nap(time.Second)).definition()
	brief := func(r *StartRequest) { r.Definition = short }
	home := int(core.KeyOfKey("charge", key)) % 2
	cfg := w.config(home)
	cfg.Retention = time.Minute
	if err := w.p[home].Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.p[home] = NewPartition(cfg)
	w.open(home)
	first, err := w.answered(w.keyed(key, elsewhere(key), brief))
	if err != nil {
		t.Fatal(err)
	}
	old := func() []journal.Document {
		t.Helper()
		found, _, err := oldClaims(t.Context(), w.journal, home, "", w.now.Add(-time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	w.pass(2 * time.Minute)
	if again, err := w.answered(w.keyed(key, "b", brief)); err != nil || again.Run != first.Run || len(old()) > 0 {
		t.Errorf("before it is removed: %+v, %v, %d old claims", again, err, len(old()))
	}
	if n, err := w.journal.Prune(t.Context(), 1-home, journal.Old{Before: w.now, Limit: 10}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if again, err := w.answered(w.keyed(key, elsewhere(key), brief)); err != nil || again.Existing {
		t.Errorf("after it was removed: %+v, %v", again, err)
	}
	w.pass(2 * time.Minute)
	if n, err := w.journal.Prune(t.Context(), 1-home, journal.Old{Before: w.now, Limit: 10}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := w.p[home].starts.dropClaims(old()); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if found, err := w.journal.FindDocuments(t.Context(), "", "~", false, 10); err != nil || len(found) > 0 {
		t.Errorf("documents are left: %v, %v", found, err)
	}
}

// TestFiringOfAKeyedStart checks that a run whose key belongs to another partition knows the firing that it is for.
func TestFiringOfAKeyedStart(t *testing.T) {
	w := newPartitionPair(t)
	const zone = "Europe/Berlin"
	key, firing := "key-1", w.now.Add(-time.Hour)
	started, err := w.answered(w.keyed(key, elsewhere(key), func(r *StartRequest) { r.Firing, r.Zone = firing, zone }))
	if err != nil {
		t.Fatal(err)
	}
	w.pass(2 * time.Second)
	h, err := w.journal.History(t.Context(), started.Run)
	if err != nil {
		t.Fatal(err)
	}
	if created := createdBy(h.Entries); created.Firing != firing || created.Zone != zone {
		t.Errorf("the firing is %s in %q", created.Firing, created.Zone)
	}
}

// TestStartOfAStoredKeyIsUncertain checks that a start whose key is stored, and whose run is not made yet, is not told
// that nothing was saved when the partition of the key fails. One whose key is not stored is.
func TestStartOfAStoredKeyIsUncertain(t *testing.T) {
	for _, stored := range []bool{false, true} {
		w := newPartitionPair(t)
		key := "key-1"
		home := int(core.KeyOfKey("charge", key)) % 2
		p := w.p[home]
		c := w.keyed(key, elsewhere(key))
		if b := p.Cut(w.now); stored {
			if err := w.journal.Append(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			p.Committed(w.now)
		}
		p.Failed(journal.ErrFull)
		<-c.ch
		if want := map[bool]error{false: ErrStalled, true: ErrUncertain}[stored]; !errors.Is(c.Err, want) {
			t.Errorf("stored %v: %v, want %v", stored, c.Err, want)
		}
	}
}
