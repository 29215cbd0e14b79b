package tasks

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/temporal/history"
)

// durable is an engine that has entries of runs.
type durable map[core.RunID][]core.Entry

func (d durable) Do(core.RunID, *engine.Body, []core.Input, func(error)) {}

func (d durable) Entries(_ context.Context, id core.RunID, after int) ([]core.Entry, error) {
	return d[id][after:], nil
}

// start adds a run that was started, and is not due yet.
func (d durable) start(t *testing.T, n int) core.RunID {
	t.Helper()
	id := core.RunID{byte(n >> 8), byte(n)}
	name := fmt.Sprintf("a workflow of some name, the %dth", n)
	input, err := proto.Marshal(&workflowservice.StartWorkflowExecutionRequest{
		WorkflowId: name, WorkflowType: &commonpb.WorkflowType{Name: "Work"}, Identity: "starter of workflows",
		TaskQueue: &taskqueuepb.TaskQueue{Name: "desk"}, RequestId: name,
		Input: &commonpb.Payloads{Payloads: []*commonpb.Payload{
			{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte("1")},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	d[id] = []core.Entry{{At: 1, Records: []core.Record{core.RunCreated{
		Definition: history.DefinitionID("Work"), Workflow: "Work", WorkflowID: name, Input: input, StartAt: 1 << 60,
	}}}}
	return id
}

func newKeeper(d durable) *Keeper {
	k := New("default", func() core.Time { return 1 }, slog.New(slog.DiscardHandler))
	k.Attach(d)
	return k
}

// TestWatchedRunIsKept forgets all runs that nobody uses, and checks that who watches one of them hears of what happens
// to it, and that it is forgotten once nobody watches it.
func TestWatchedRunIsKept(t *testing.T) {
	d := durable{}
	k := newKeeper(d)
	k.keeps = 0
	watched, other := d.start(t, 1), d.start(t, 2)
	k.look(watched)
	if len(k.runs) != 0 {
		t.Fatalf("%d runs are kept that nobody uses", len(k.runs))
	}
	r := k.Use(watched)
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	grown := r.Watch()
	r.Release()
	k.look(other)
	d[watched] = append(d[watched], core.Entry{At: 2, Records: []core.Record{core.SignalKept{Name: "go"}}})
	k.look(watched)
	select {
	case <-grown:
	default:
		t.Error("who watches the run does not hear of what has happened")
	}
	r.Unwatch()
	if len(k.runs) != 0 {
		t.Errorf("%d runs are kept that nobody watches any more", len(k.runs))
	}
}

// has reports whether the keeper has a run in its memory.
func (k *Keeper) has(id core.RunID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.runs[id] != nil
}

// TestRunsAreKeptForAWhile checks that a short history is kept for a while after its last use, and no longer, and that
// a long one stays.
func TestRunsAreKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := durable{}
		k := newKeeper(d)
		first, second := d.start(t, 1), d.start(t, 2)
		k.look(first)
		<-time.After(keepFor / 2)
		k.look(second)
		<-time.After(keepFor/2 + keepFor/5)
		if k.has(first) || !k.has(second) {
			t.Errorf("the first one is kept: %t, the second one: %t", k.has(first), k.has(second))
		}
		<-time.After(keepFor)
		if k.has(second) {
			t.Error("the second one is kept")
		}
		k.look(first)
		<-time.After(keepFor / 2)
		if !k.has(first) {
			t.Error("the history is not kept")
		}
		<-time.After(keepFor)
		if k.has(first) {
			t.Error("it is kept for ever the second time")
		}
		for range short {
			d[second] = append(d[second], core.Entry{At: 2, Records: []core.Record{core.SignalKept{Name: "go"}}})
		}
		k.look(first)
		k.look(second)
		<-time.After(2 * keepFor)
		if k.has(first) || !k.has(second) {
			t.Error("a long history is not kept")
		}
	})
}

// TestRestingRuns checks what is kept of a run that nobody uses: bytes, and few objects for the collector to look at.
func TestRestingRuns(t *testing.T) {
	const runs = 2000
	d := durable{}
	k := newKeeper(d)
	for n := range runs {
		d.start(t, n)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for id := range d {
		k.look(id)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	objects := (after.HeapObjects - before.HeapObjects) / runs
	bytes := (after.HeapAlloc - before.HeapAlloc) / runs
	t.Logf("a run is %d bytes in %d objects", bytes, objects)
	if len(k.runs) != runs || objects > 10 || bytes > 1600 {
		t.Errorf("of %d runs, one is %d bytes in %d objects", len(k.runs), bytes, objects)
	}
	runtime.KeepAlive(d)
}
