package worker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker/workertest"
	"github.com/pawl-dev/pawl/policy"
)

// A sign is a sign of life that fake work gives after a pause.
type sign struct {
	pause   time.Duration
	output  bool
	details string // the details of a heartbeat; empty: none
}

// heard is a report and when it came, since the attempt's start.
type heard struct {
	when time.Duration
	at   time.Duration
	core.Beat
}

type listener struct {
	start time.Time
	epoch core.Time
	beats []heard
	end   chan core.TaskEnded
}

func (l *listener) Report(_ core.RunID, in core.Input) {
	switch in := in.(type) {
	case core.Beat:
		l.beats = append(l.beats, heard{time.Since(l.start), in.At.Sub(l.epoch), in})
	case core.TaskEnded:
		l.end <- in
	}
}

// live runs work that gives these signs under limits, and returns the reports that the engine got.
func live(t *testing.T, heartbeat, inactivity time.Duration, signs []sign) (beats []heard, end core.TaskEnded) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &listener{start: time.Now(), epoch: policy.At(time.Now()), end: make(chan core.TaskEnded, 1)}
		p := NewPool(PoolConfig{Reporter: l, Executors: map[string]Executor{
			"live": executorFunc(func(_ context.Context, _ core.Task, alive Alive) Result {
				for _, s := range signs {
					<-time.After(s.pause)
					synctest.Wait() // let timers of this instant fire before the sign, never during it
					switch {
					case s.output:
						alive.Output()
					case s.details == "":
						alive.Heartbeat(nil)
					default:
						alive.Heartbeat([]byte(s.details))
					}
				}
				return Result{}
			}),
		}})
		defer closePool(t, p)
		task := workertest.Task("live", "")
		task.Heartbeat, task.Inactivity = heartbeat.Microseconds(), inactivity.Microseconds()
		p.Dispatch(task)
		end = <-l.end
		<-time.After(time.Hour) // no report may come after the end
		beats = l.beats
	})
	return beats, end
}

func outline(beats []heard) string {
	s := ""
	for _, b := range beats {
		kind := "beat"
		if b.Output {
			kind = "output"
		}
		s += fmt.Sprintf("%v: %s of %v %s\n", b.when, kind, b.at, b.Details)
	}
	return s
}

func TestPulse(t *testing.T) {
	second := time.Second
	every := func(pause time.Duration, n int, output bool) []sign {
		signs := make([]sign, n)
		for i := range signs {
			signs[i] = sign{pause: pause, output: output}
		}
		return signs
	}
	for name, c := range map[string]struct {
		heartbeat, inactivity time.Duration
		signs                 []sign
		want                  string
		details               string
	}{
		"no limit, no details": {signs: every(second, 100, true)},
		"no limit, heartbeats": {signs: every(second, 100, false)},
		"output does not count for heartbeat": {
			heartbeat: 4 * second, signs: every(second, 100, true),
		},
		"a busy process reports once in three quarters": {
			inactivity: 4 * second, signs: every(700*time.Millisecond, 13, true),
			want: "3s: output of 2.8s \n5.8s: output of 5.6s \n8.6s: output of 8.4s \n",
		},
		"a sign that waits is reported by the timer": {
			inactivity: 4 * second, signs: []sign{{second, true, ""}, {10 * second, true, ""}},
			want: "3s: output of 1s \n11s: output of 11s \n",
		},
		"a sign after the instant is reported at once": {
			heartbeat: 4 * second, signs: []sign{{3500 * time.Millisecond, false, ""}, {second, false, ""}},
			want: "3.5s: beat of 3.5s \n",
		},
		"a heartbeat is activity": {
			inactivity: 4 * second, signs: every(2*second, 2, false),
			want: "3s: beat of 2s \n",
		},
		"details without a limit come once a second": {
			signs: []sign{
				{second / 10, false, "1"},
				{second / 10, false, "2"},
				{second / 10, false, "3"},
				{2 * second, false, "4"},
				{second / 10, false, "5"},
			},
			want: "1s: beat of 300ms 3\n2.3s: beat of 2.3s 4\n", details: "5",
		},
		"details do not wait for a long limit": {
			heartbeat: time.Minute, signs: []sign{
				{second / 2, false, "1"},
				{second, false, "2"},
				{second, false, "2"},
				{second, false, "2"},
				{second / 2, false, "3"},
			},
			want: "1s: beat of 500ms 1\n2s: beat of 1.5s 2\n4s: beat of 4s 3\n",
		},
		"details that stay the same are as lazy as a heartbeat": {
			heartbeat: 4 * second, signs: []sign{{second, false, "1"}, {second, false, "1"}, {8 * second, false, ""}},
			want: "1s: beat of 1s 1\n4s: beat of 2s \n10s: beat of 10s \n",
		},
		"details of a short attempt come with its end": {
			heartbeat: time.Minute, signs: []sign{{second / 2, false, "1"}}, details: "1",
		},
		"details travel with the next report": {
			heartbeat: second, signs: []sign{{second / 10, false, "1"}, {700 * time.Millisecond, false, "2"}},
			want: "750ms: beat of 100ms 1\n", details: "2",
		},
		"both limits have their own reports": {
			heartbeat: 40 * second, inactivity: 4 * second,
			signs: []sign{{second, false, ""}, {second, true, ""}, {3 * second, true, ""}, {26 * second, false, ""}},
			want:  "3s: output of 2s \n5s: output of 5s \n30s: beat of 1s \n31s: beat of 31s \n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			beats, end := live(t, c.heartbeat, c.inactivity, c.signs)
			if got := outline(beats); got != c.want {
				t.Errorf("reported\n%swant\n%s", got, c.want)
			}
			if string(end.Details) != c.details {
				t.Errorf("ended with details %q, want %q", end.Details, c.details)
			}
		})
	}
}

// TestPulseKeepsDeadlines checks that the engine learns of a sign before the deadline that the sign moves. It does so a
// quarter of the limit before that deadline, or as soon as the sign is given.
func TestPulseKeepsDeadlines(t *testing.T) {
	limits := []time.Duration{0, 40 * time.Millisecond, time.Second, time.Minute}
	rapid.Check(t, func(rt *rapid.T) {
		heartbeat := rapid.SampledFrom(limits).Draw(rt, "heartbeat")
		inactivity := rapid.SampledFrom(limits).Draw(rt, "inactivity")
		longest := max(heartbeat, inactivity, time.Millisecond)
		signs := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) sign {
			scale := rapid.SampledFrom([]time.Duration{
				longest, longest / 20,
				max(min(heartbeat, inactivity), time.Millisecond),
			}).Draw(rt, "scale")
			s := sign{pause: time.Duration(rapid.Int64Range(1, int64(scale)).Draw(rt,
				"pause")).Truncate(time.Microsecond) + time.Microsecond}
			if s.output = rapid.Bool().Draw(rt, "output"); !s.output && rapid.Bool().Draw(rt, "detailed") {
				s.details = strconv.Itoa(rapid.IntRange(0, 9).Draw(rt, "details"))
			}
			return s
		}), 0, 60).Draw(rt, "signs")
		beats, end := live(t, heartbeat, inactivity, signs)
		check := func(limit time.Duration, counts func(output bool) bool) {
			if problem := broken(limit, signs, beats, counts); problem != "" {
				rt.Fatalf("limit %v: %s\nreports:\n%s", limit, problem, outline(beats))
			}
		}
		check(heartbeat, func(output bool) bool { return !output })
		check(inactivity, func(bool) bool { return true })
		if problem := tooMany(heartbeat, inactivity, beats); problem != "" {
			rt.Fatalf("%s\nreports:\n%s", problem, outline(beats))
		}
		if problem := outdated(signs, beats, end.Details); problem != "" {
			rt.Fatalf("%s\nreports:\n%s", problem, outline(beats))
		}
	})
}

// since returns when a sign was given.
func since(signs []sign, i int) (at time.Duration) {
	for _, s := range signs[:i+1] {
		at += s.pause
	}
	return at
}

// outdated names details that the engine should have known a second after they were given, or at the end, and did not:
// it knew older ones, or none. last are those that came with the end.
func outdated(signs []sign, beats []heard, last []byte) string {
	over := since(signs, len(signs)-1)
	for i, s := range signs {
		if s.details == "" {
			continue
		}
		given := since(signs, i)
		by := min(given+time.Second, over)
		known := ""
		for _, b := range beats {
			if b.Details != nil && b.when <= by {
				known = string(b.Details)
			}
		}
		if by == over && last != nil {
			known = string(last)
		}
		recent := false
		for j, later := range signs[i:] {
			recent = recent || later.details == known && known != "" && since(signs, i+j) <= by
		}
		if !recent {
			return fmt.Sprintf("at %v the engine knew %q, and not what was given at %v or later", by, known, given)
		}
	}
	return ""
}

// broken names a sign that the engine should have heard of and did not.
func broken(limit time.Duration, signs []sign, beats []heard, counts func(output bool) bool) string {
	if limit == 0 {
		return ""
	}
	over := since(signs, len(signs)-1)
	for i, s := range signs {
		if !counts(s.output) {
			continue
		}
		at, heardAt := since(signs, i), over
		for _, b := range slices.Backward(beats) {
			if counts(b.Output) && b.at >= at {
				heardAt = b.when
			}
		}
		var known time.Duration // the latest sign the engine knew of just before
		for _, b := range beats {
			if counts(b.Output) && b.when < heardAt {
				known = max(known, b.at)
			}
		}
		if by := max(at, known+limit/4*3); heardAt > by {
			return fmt.Sprintf("the sign at %v was reported at %v, not by %v", at, heardAt, by)
		}
	}
	return ""
}

// tooMany describes where there were more reports than the limits need. Each limit may cause two reports in three
// quarters of its length.
func tooMany(heartbeat, inactivity time.Duration, beats []heard) string {
	shortest := detailsEvery
	for _, limit := range []time.Duration{heartbeat, inactivity} {
		if limit > 0 {
			shortest = min(shortest, limit/4*3)
		}
	}
	for i := 5; i < len(beats); i++ {
		if gap := beats[i].when - beats[i-5].when; gap < shortest {
			return fmt.Sprintf("six reports within %v, at %v", gap, beats[i].when)
		}
	}
	return ""
}

// TestPulseOfRevokedAttemptsIsSilent checks that a revoked attempt reports nothing but its last words, once: the next
// attempt goes on from there.
func TestPulseOfRevokedAttemptsIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReports()
		p := NewPool(PoolConfig{Reporter: r, Executors: map[string]Executor{
			"chatty": executorFunc(func(ctx context.Context, _ core.Task, alive Alive) Result {
				<-ctx.Done()
				for i := range 10 {
					<-time.After(time.Second)
					alive.Heartbeat([]byte{'0' + byte(i)})
				}
				return Result{}
			}),
		}})
		defer closePool(t, p)
		task := workertest.Task("chatty", "")
		task.Heartbeat = 1000
		p.Dispatch(task)
		p.Revoke(task.Token, policy.KindTimeout)
		next[core.TaskStopped](t, r)
		if beats := r.beats(); len(beats) != 1 || string(beats[0].Details) != "9" {
			t.Errorf("%+v", beats)
		}
	})
}
