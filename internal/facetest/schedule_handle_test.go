package facetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

// describe returns the schedule "s".
func describe(t *testing.T, h pawl.ScheduleHandle) client.ScheduleDescription {
	t.Helper()
	d, err := h.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// clockTime formats instants of the first day as tests write them.
func clockTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("15:04")
}

func missed(d client.ScheduleDescription) string {
	out := []string{fmt.Sprint(d.Missed)}
	for _, m := range d.RecentMissed {
		out = append(out, fmt.Sprintf("%s-%s %d %s", clockTime(m.From), clockTime(m.To), m.Count, m.Reason))
	}
	return strings.Join(out, ", ")
}

// TestEnsureSchedule checks that an unchanged schedule stays as it is, and that a changed one is changed in place.
func TestEnsureSchedule(t *testing.T) {
	w := job()
	other := pawl.Define("other", func(_ pawl.Context, n int) (int, error) { return n, nil })
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		hourly := client.Schedule{Cron: "@hourly"}
		h := ensure(t, e, hourly, w, "1s", pawl.Labels(map[string]string{"team": "<a>"}))
		e.Skip(90 * time.Minute)
		before, err := e.History(t.Context(), "@s")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			e.Restart()
			ensure(t, e, hourly, w, "1s", pawl.Labels(map[string]string{"team": "<a>"}))
			e.Settle()
		}
		if after, err := e.History(t.Context(), "@s"); err != nil || len(after) != len(before) {
			t.Errorf("the same again made %d bytes of history out of %d; %v", len(after), len(before), err)
		}
		d := describe(t, h)
		if clockTime(d.Next) != "02:00" || clockTime(d.Last) != "01:00" || d.LastRun != "s@2000-01-01T01:00:00Z" ||
			d.Workflow != "job" || string(d.Input) != `"1s"` || d.Labels["team"] != "<a>" {
			t.Errorf("it is %+v", d)
		}

		ensure(t, e, client.Schedule{Cron: "*/20 * * * *"}, w, "1s", pawl.Labels(map[string]string{"team": "<a>"}))
		e.Settle()
		if d = describe(t, h); clockTime(d.Next) != "01:40" || d.Missed != 0 || d.Cron != "*/20 * * * *" {
			t.Errorf("after the update it is %+v", d)
		}
		e.Skip(35 * time.Minute)
		if got, want := times(t, e), "01:00:00 succeeded, 01:40:00 succeeded, 02:00:00 succeeded"; got != want {
			t.Errorf("the runs are %s, want %s", got, want)
		}

		ensure(t, e, client.Schedule{Cron: "*/20 * * * *"}, other, 7)
		e.Skip(20 * time.Minute)
		d = describe(t, h)
		if d.Workflow != "other" || len(d.Labels) != 0 || clockTime(d.Last) != "02:20" {
			t.Errorf("with another workflow it is %+v", d)
		}
		if got, err := pawl.RunOf[int](e, d.LastRun).Result(t.Context()); got != 7 || err != nil {
			t.Errorf("its run returned %d, %v", got, err)
		}
		runs, err := e.ListRuns(t.Context(), client.Query{Labels: map[string]string{"pawl.schedule": "s"}})
		if err != nil || len(runs) != 4 {
			t.Errorf("%d runs have the schedule's label, want 4; %v", len(runs), err)
		}
		all, err := e.ListSchedules(t.Context())
		if err != nil || len(all) != 1 || !reflect.DeepEqual(all[0], d) {
			t.Errorf("listed are %+v, %v, want %+v", all, err, d)
		}
	}, w, other)
}

// TestSchedulePauses checks that a paused schedule begins triggered runs only, and that its missed firings are told.
func TestSchedulePauses(t *testing.T) {
	w := job()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		h := ensure(t, e, client.Schedule{Cron: "*/10 * * * *", CatchUp: 24 * time.Hour}, w, "1s")
		h.Actor = "ann"
		e.Skip(15 * time.Minute)
		must(t, h.Pause(t.Context(), "maintenance"))
		e.Skip(time.Minute)
		if d := describe(t, h); clockTime(d.Paused) != "00:15" || !d.Next.IsZero() {
			t.Errorf("paused, it is %+v", d)
		}
		e.Skip(29 * time.Minute)
		e.Crash()
		id, err := h2(e, h).Trigger(t.Context(), "by hand")
		if err != nil {
			t.Fatal(err)
		}
		rare := client.Schedule{Cron: "5 * * * *", CatchUp: 24 * time.Hour}
		must(t, h2(e, h).Update(t.Context(), rare, "less often"))
		e.Settle()
		if d := describe(t, h2(e, h)); clockTime(d.Paused) != "00:15" || d.Cron != "5 * * * *" {
			t.Errorf("updated while paused, it is %+v", d)
		}
		e.Skip(time.Hour)
		must(t, h2(e, h).Resume(t.Context(), "done"))
		e.Skip(30 * time.Minute)
		if got, want := times(t, e), "00:10:00 succeeded, 00:45:00 succeeded, 02:05:00 succeeded"; got != want {
			t.Errorf("the runs are %s, want %s", got, want)
		}
		if got, want := missed(describe(t, h2(e, h))), "4, 00:20-00:40 3 paused, 01:05-01:05 1 paused"; got != want {
			t.Errorf("missed: %s, want %s", got, want)
		}
		x, err := e.Explain(t.Context(), id)
		if err != nil || x.Phase != "succeeded" {
			t.Errorf("the triggered run is %+v, %v", x, err)
		}
		history, err := e.HistoryEvents(t.Context(), "@s", 0)
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, ev := range history {
			said += fmt.Sprintf("%+v %s\n", ev, ev.Data)
		}
		for _, want := range []string{"ann", "maintenance", "by hand", "less often", "done"} {
			if !strings.Contains(said, want) {
				t.Errorf("the history does not say %q: %s", want, said)
			}
		}
	}, w)
}

// h2 returns the handle for an engine that was opened again.
func h2(e *pawltest.Env, h pawl.ScheduleHandle) pawl.ScheduleHandle {
	again := pawl.ScheduleOf(e, h.Name)
	again.Actor = h.Actor
	return again
}

// TestScheduleMissed checks that firings of an outage and those that overlap are told, and a backfill makes up for them
// once.
func TestScheduleMissed(t *testing.T) {
	for _, overlap := range []client.Overlap{client.OverlapSkip, client.OverlapAllow} {
		w := job()
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			s := client.Schedule{Cron: "*/10 * * * *", Overlap: overlap, CatchUp: 16 * time.Minute}
			h := ensure(t, e, s, w, "12m")
			e.Skip(43 * time.Minute) // the run of 00:30 has ended
			must(t, e.Close())
			<-time.After(52 * time.Minute)
			e.Reopen() // the clock shows 01:35: the firing of 01:20 is not too late, that of 01:10 is
			e.Skip(time.Minute)
			h = h2(e, h)
			var want string
			fired := "00:10:00 succeeded, 00:30:00 succeeded, 01:35:00 waiting"
			if overlap == client.OverlapSkip {
				want = "5, 00:20-00:20 1 overlap, 00:40-00:40 1 overlap, 00:50-01:10 3 late" // 01:30 waits for 01:20
			} else {
				want = "3, 00:50-01:10 3 late"
				fired = "00:10:00 succeeded, 00:20:00 succeeded, 00:30:00 succeeded, 00:40:00 succeeded, " +
					"01:35:00 waiting, 01:35:00 waiting"
			}
			if got := missed(describe(t, h)); got != want {
				t.Errorf("%s: missed: %s, want %s", overlap, got, want)
			}
			if got := times(t, e); got != fired {
				t.Errorf("%s: the runs are %s, want %s", overlap, got, fired)
			}
			from := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
			for range 2 {
				n, err := h.Backfill(t.Context(), from, from.Add(61*time.Minute), "after the outage")
				if n != 7 || err != nil {
					t.Errorf("%s: the span has %d firings, want 7: %v", overlap, n, err)
				}
				e.Crash()
				h = h2(e, h)
				e.Skip(4 * time.Hour)
			}
			runs, err := e.ListRuns(t.Context(), client.Query{Workflow: "job", Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			begun := map[string]int{}
			for _, r := range runs {
				begun[r.WorkflowID]++
			}
			for at := from; at.Before(from.Add(61 * time.Minute)); at = at.Add(10 * time.Minute) {
				if id := "s@" + at.Format(time.RFC3339); begun[id] != 1 {
					t.Errorf("%s: %d runs for %s", overlap, begun[id], id)
				}
			}
		}, w)
	}
}

// TestScheduleMissedInterval checks that an interval keeps its beat through an outage, and a backfill goes by the same
// beat.
func TestScheduleMissedInterval(t *testing.T) {
	w := job()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		h := ensure(t, e, client.Schedule{Cron: "@every 7m", CatchUp: time.Minute}, w, "1s")
		e.Skip(8 * time.Minute)
		must(t, e.Close())
		<-time.After(24 * time.Minute)
		e.Reopen() // the clock shows 00:32
		h = h2(e, h)
		e.Skip(4 * time.Minute)
		if got, want := times(t, e), "00:07:00 succeeded, 00:35:00 succeeded"; got != want {
			t.Errorf("the runs are %s, want %s", got, want)
		}
		if got, want := missed(describe(t, h)), "3, 00:14-00:28 3 late"; got != want {
			t.Fatalf("missed: %s, want %s", got, want)
		}
		// Neither instant is one of a firing; and once more after a pause, which the beat goes on through.
		for _, h := range []pawl.ScheduleHandle{h, h} {
			from := describe(t, h).RecentMissed[0].From
			if _, err := h.Backfill(t.Context(), from.Add(-time.Minute), from.Add(10*time.Minute), ""); err != nil {
				t.Fatal(err)
			}
			e.Skip(time.Minute)
			must(t, errors.Join(h.Pause(t.Context(), ""), h.Resume(t.Context(), "")))
			if _, err := h.Backfill(t.Context(), from, from.Add(15*time.Minute), ""); err != nil {
				t.Fatal(err)
			}
			e.Skip(time.Minute)
		}
		must(t, h.Pause(t.Context(), ""))
		ids, err := e.ListRuns(t.Context(), client.Query{Workflow: "job", Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range ids {
			got = append(got, strings.TrimPrefix(r.WorkflowID, "s@2000-01-01T"))
		}
		slices.Sort(got)
		if want := "[00:07:00Z 00:14:00Z 00:21:00Z 00:28:00Z 00:35:00Z]"; fmt.Sprint(got) != want {
			t.Errorf("the runs are %s, want %s", got, want)
		}
	}, w)
}

// TestScheduleChangesOverlap checks that a schedule that begins to queue waits for the run that it has started before.
func TestScheduleChangesOverlap(t *testing.T) {
	w := job()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		ensure(t, e, client.Schedule{Cron: "*/10 * * * *"}, w, "14m30s")
		e.Skip(12 * time.Minute)
		s := client.Schedule{Cron: "*/10 * * * *", Overlap: client.OverlapQueue, CatchUp: 24 * time.Hour}
		ensure(t, e, s, w, "14m30s")
		e.Skip(35 * time.Minute)
		if got, want := times(t, e), "00:10:00 succeeded, 00:24:30 succeeded, 00:39:00 waiting"; got != want {
			t.Errorf("the runs are %s, want %s", got, want)
		}
	}, w)
}

func TestScheduleHandleRefuses(t *testing.T) {
	w := job()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		ctx := t.Context()
		none := pawl.ScheduleOf(e, "none")
		_, describeErr := none.Describe(ctx)
		_, triggerErr := none.Trigger(ctx, "")
		for name, err := range map[string]error{
			"describe": describeErr, "pause": none.Pause(ctx, ""), "delete": none.Delete(ctx, ""),
			"trigger": triggerErr,
		} {
			if !errors.Is(err, pawl.ErrNotFound) || !strings.Contains(err.Error(), `no schedule "none"`) {
				t.Errorf("%s: %v", name, err)
			}
		}
		h := ensure(t, e, client.Schedule{Cron: "@daily"}, w, "1s")
		_, backfillErr := h.Backfill(ctx, time.Now(), time.Now().Add(-time.Hour), "")
		_, futureErr := h.Backfill(ctx, time.Now(), time.Now().Add(48*time.Hour), "")
		_, longErr := h.Backfill(ctx, time.Now().AddDate(-200, 0, 0), time.Now(), "")
		_, skipErr := h.Skip(ctx, time.Now().Add(time.Hour), "")
		_, keyErr := w.EnsureSchedule(ctx, e, "s", client.Schedule{Cron: "@daily"}, "1s", pawl.IdempotencyKey("x"))
		_, labelErr := w.EnsureSchedule(ctx, e, "s", client.Schedule{Cron: "@daily"}, "1s",
			pawl.Labels(map[string]string{"": "x"}))
		for name, err := range map[string]error{
			"backfill": backfillErr, "future": futureErr, "long": longErr, "skip": skipErr,
			"update": h.Update(ctx, client.Schedule{Cron: "x"}, ""), "key": keyErr,
			"label": labelErr, "empty": pawl.ScheduleOf(e, "").Pause(ctx, ""),
		} {
			if !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		// A senseless change changes nothing, whoever sends it.
		for _, text := range []string{`5`, `{"op":"update","spec":{"cron":"x"}}`, `{"op":"update","labels":{"=":""}}`} {
			ev := client.SendRequest{Name: "pawl.schedule", Payload: []byte(text)}
			must(t, e.SendEvent(ctx, "@s", ev))
		}
		e.Settle()
		if d := describe(t, h); d.Cron != "@daily" || d.Problem != "" {
			t.Errorf("it is %+v", d)
		}
		must(t, h.Delete(ctx, ""))
		if all, err := e.ListSchedules(ctx); err != nil || len(all) != 0 {
			t.Errorf("after the delete there are %+v, %v", all, err)
		}
		ensure(t, e, client.Schedule{Cron: "@hourly"}, w, "1s")
		if d := describe(t, h); d.Cron != "@hourly" {
			t.Errorf("it is %+v", d)
		}
	}, w)
}
