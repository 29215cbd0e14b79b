package minutes

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/golden"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/overview"
	"github.com/pawl-dev/pawl/policy"
)

// began is an instant at the beginning of an hour.
var began = policy.At(time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC))

// rig is a counter on a database, and its clock.
type rig struct {
	*testing.T
	disk journal.Documents
	at   core.Time
	*Counter
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, disk: memory.New(), at: began}
	r.restart("")
	return r
}

// restart makes a new counter, as a process that starts does.
func (r *rig) restart(owner string) {
	r.Counter = New(r.disk, owner, func() core.Time { return r.at }, nil)
}

// ran tells of a run that began and ended.
func (r *rig) ran(phase core.RunPhase, took time.Duration, parent bool) {
	head := engine.Head{Workflow: "w", CreatedAt: r.at}
	if parent {
		head.Parent.Run = core.RunID{1}
	}
	tell := r.Observer(engine.Observer{}).Recorded
	tell(&engine.Observation{Record: core.RunCreated{}, At: r.at, Run: head})
	tell(&engine.Observation{Record: core.RunEnded{Phase: phase}, At: r.at.Add(took), Run: head})
}

// tried tells of an attempt that waited for its worker.
func (r *rig) tried(queue, service string, waited time.Duration, retry bool) {
	spec := &core.StepSpec{Kind: core.KindTask, Queue: queue, Type: "mail", Share: &core.Share{Service: service}}
	r.Observer(engine.Observer{}).Recorded(&engine.Observation{
		Record: core.AttemptEnded{Retry: retry}, At: r.at, Spec: spec,
		Attempt: journal.AttemptRow{ReadyAt: r.at.Add(-waited), Started: r.at},
	})
}

func (r *rig) store() {
	r.Helper()
	if err := r.Store(r.Context()); err != nil {
		r.Fatal(err)
	}
}

// read returns all that was counted in a span that ends now.
func (r *rig) read(span time.Duration) (all overview.Minute, minutes int, since api.Time) {
	r.Helper()
	list, since, err := r.Read(r.Context(), api.Time(r.at.Add(-span)), api.Time(r.at))
	if err != nil {
		r.Fatal(err)
	}
	for _, m := range list {
		all.Join(m)
	}
	return all, len(list), since
}

// TestMinutesAreKept checks that what was counted is there after a restart, with what is counted since, and of other
// processes; that child runs are left out; and that only what is new enough is kept.
func TestMinutesAreKept(t *testing.T) {
	r := newRig(t)
	r.ran(core.RunSucceeded, time.Second, false)
	r.ran(core.RunFailed, 10*time.Second, false)
	r.ran(core.RunSucceeded, time.Hour, true)
	r.tried("", "bank", 300*time.Millisecond, true)
	r.Observer(engine.Observer{}).Fired(r.at, r.at.Add(20*time.Millisecond))
	r.store()
	r.at = r.at.Add(5 * time.Minute)
	r.ran(core.RunTimedOut, time.Second, false)
	r.store()
	r.restart("second")
	r.at = r.at.Add(time.Minute)
	r.ran(core.RunSucceeded, time.Second, false)
	all, minutes, since := r.read(time.Hour)
	late := all.Late.Std()
	if all.Started != 4 || all.Failed != 2 || all.Retries != 1 || late != 20*time.Millisecond || minutes != 3 {
		t.Errorf("counted are %+v in %d minutes", all, minutes)
	}
	if since != api.Time(began) {
		t.Errorf("it counts since %v", since)
	}
	near := func(got, want time.Duration) bool { return got > want*8/10 && got < want*12/10 }
	p95, waited := all.Took.Within(0.95), all.Waited.Within(0.5)
	if !near(p95, 10*time.Second) || !near(waited, 300*time.Millisecond) {
		t.Errorf("runs took %s, attempts waited %s", p95, waited)
	}
	if part, _, _ := r.read(2 * time.Minute); part.Started != 2 {
		t.Errorf("in the last minutes %+v", part)
	}
	r.store()
	r.store() // twice changes nothing
	if again, _, _ := r.read(time.Hour); again.Started != 4 {
		t.Errorf("stored twice: %+v", again)
	}
	r.at = r.at.Add(kept + time.Hour)
	r.ran(core.RunSucceeded, time.Second, false)
	r.store()
	docs, err := r.disk.FindDocuments(t.Context(), prefix, "minutes0", false, 100)
	if err != nil || len(docs) != 1 {
		t.Errorf("%d documents are kept, %v", len(docs), err)
	}
}

// TestForm checks that what is stored is as version 0.1.0 had it.
func TestForm(t *testing.T) {
	golden.Form(t, "hour.json", golden.Full[hour](),
		func(h hour) ([]byte, error) { return journal.EncodeDocument(version, h) },
		func(text []byte) (out hour, err error) { return out, journal.DecodeDocument(text, version, &out) })
}

// failing is a database that takes nothing.
type failing struct{ journal.Documents }

func (failing) PutDocuments(context.Context, ...journal.Document) error { return journal.ErrGone }

// TestMinutesSurviveTheStorage checks that what cannot be stored is counted on, and stored later.
func TestMinutesSurviveTheStorage(t *testing.T) {
	r := newRig(t)
	good := r.disk
	r.disk = failing{good}
	r.restart("")
	r.ran(core.RunSucceeded, time.Second, false)
	if err := r.Store(t.Context()); err == nil {
		t.Fatal("a storage that takes nothing has taken it")
	}
	r.ran(core.RunSucceeded, time.Second, false)
	r.docs = good
	r.store()
	r.disk = good
	r.restart("")
	if all, _, _ := r.read(time.Hour); all.Started != 2 {
		t.Errorf("stored later are %+v", all)
	}
}

// TestRecent checks what queues and services did in the last five minutes, and that what is older counts no more.
func TestRecent(t *testing.T) {
	r := newRig(t)
	for range 5 {
		r.tried("mail", "bank", time.Second, true)
	}
	r.at = r.at.Add(2 * time.Minute)
	r.tried("mail", "bank", time.Millisecond, false)
	s := r.Services()
	if len(s) != 1 || s[0].Attempts != 6 || s[0].Retries != 5 || s[0].PerMinute != 0 || s[0].All != 5 ||
		len(s[0].Parts) != recentParts || s[0].Parts[recentParts-13] != 5 {
		t.Errorf("services: %+v", s)
	}
	q := r.Queues()[TaskType{"mail", "mail"}]
	if q.PerMinute != 1 || q.P95 < 800*time.Millisecond || q.P50 < 800*time.Millisecond {
		t.Errorf("queues: %+v", q)
	}
	r.at = r.at.Add(4 * time.Minute)
	s, q = r.Services(), r.Queues()[TaskType{"mail", "mail"}]
	if s[0].Attempts != 1 || s[0].All != 5 || q.PerMinute != 0 || q.P95 > 2*time.Millisecond {
		t.Errorf("later: %+v, %+v", s, q)
	}
}
