package history

import (
	"math"
	"slices"
	"testing"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
)

// TestRest folds the runs of the corpus with a rest after each entry. It checks that their events are those of a fold
// without a rest, from whichever event on, that a worker who knows some gets the others, and that a run at rest keeps
// bytes only.
func TestRest(t *testing.T) {
	for _, r := range readCorpus(t, corpusFile) {
		plain, rested := New(r.id), New(r.id)
		for _, e := range r.entries {
			plain.Add(e)
			rested.Add(e)
			rested.Rest()
			if kept := rested.events.loose; len(kept) > 0 && rested.reset == nil || rested.start != nil {
				t.Fatalf("%s:%d: at rest it keeps %d events, and the request %v", corpusFile, r.line, len(kept),
					rested.start)
			}
			if !proto.Equal(plain.Start(), rested.Start()) || !proto.Equal(plain.Memo(), rested.Memo()) {
				t.Fatalf("%s:%d: the request is %v, and was %v", corpusFile, r.line, rested.Start(), plain.Start())
			}
			compareRested(t, r, plain, rested)
		}
	}
}

func compareRested(t *testing.T, r *corpusRun, plain, rested *Fold) {
	t.Helper()
	want := plain.View(plain.Entries)
	for n := range len(want) + 2 {
		got := rested.Page(n, math.MaxInt, rested.Entries)
		if !slices.EqualFunc(got, want[min(n, len(want)):], equalEvents) {
			t.Fatalf("%s:%d: after %d entries, the events behind %d are %v", corpusFile, r.line, plain.Entries, n, got)
		}
		for most := 1; most < 4; most++ {
			page, end := rested.Page(n, most, rested.Entries), min(n+most, len(want))
			if len(page) < end-n || !slices.EqualFunc(page[:max(end-n, 0)], want[min(n, end):end], equalEvents) {
				t.Fatalf("%s:%d: after %d entries, %d events behind %d are %v", corpusFile, r.line, plain.Entries, most,
					n, page)
			}
		}
	}
	whole := plain.Task(plain.Entries, 0, 1, "worker", 1)
	for n := range plain.Final() + 1 {
		got := rested.Task(rested.Entries, n, 1, "worker", 1)
		if got.Started != whole.Started || !slices.EqualFunc(got.Events, whole.Events[n:], equalEvents) {
			t.Fatalf("%s:%d: after %d entries, who knows %d events gets %v", corpusFile, r.line, plain.Entries, n, got)
		}
	}
}

func equalEvents(a, b *Event) bool { return proto.Equal(a, b) }

// TestRestWithBrokenText lets a run rest in whose events a text is not UTF-8, which the protocol cannot write: nothing
// of it is lost.
func TestRestWithBrokenText(t *testing.T) {
	f := New(core.RunID{1})
	f.Add(core.Entry{At: 1, Records: []core.Record{core.RunCreated{WorkflowID: "w", StartAt: 1 << 60}}})
	actors := []string{"one", "t\xffwo", "three"}
	for _, actor := range actors {
		f.Add(core.Entry{At: 2, Records: []core.Record{core.SignalKept{Name: "go", Actor: actor}}})
		f.settle(math.MaxInt)
		f.Rest()
		f.Rest()
	}
	events := f.View(f.Entries)
	for i, actor := range actors {
		e := events[len(events)-len(actors)+i]
		if got := e.GetWorkflowExecutionSignaledEventAttributes().GetIdentity(); got != actor {
			t.Errorf("event %d is of %q, not %q", e.EventId, got, actor)
		}
	}
	if f.events.inside == 0 || f.events.inside == f.events.len() {
		t.Errorf("%d of %d events are bytes", f.events.inside, f.events.len())
	}
}

// TestRestBetweenResets lets a run rest between two resets: the event of the first one names the run that came of it.
func TestRestBetweenResets(t *testing.T) {
	f := New(core.RunID{3})
	f.Add(core.Entry{At: 1, Records: []core.Record{core.RunCreated{WorkflowID: "w"}}})
	for i := range 2 {
		base := core.RunID{byte(i + 1)}
		meta, err := (&Meta{Base: base.String(), Failed: &workflowservice.RespondWorkflowTaskFailedRequest{}}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		f.Add(core.Entry{At: 2, Records: []core.Record{core.BodyAnswered{Seen: i + 1, Meta: meta}}})
		f.Rest()
	}
	var became []string
	for _, e := range f.View(f.Entries) {
		if a := e.GetWorkflowTaskFailedEventAttributes(); a != nil {
			became = append(became, a.NewRunId)
		}
	}
	if want := []string{core.RunID{2}.String(), f.Run.String()}; !slices.Equal(became, want) {
		t.Errorf("the resets have made %v, not %v", became, want)
	}
}
