package facetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/nightly"
)

// talkDir, where set, makes the test binary a program that is killed while it answers updates, fires a schedule and
// reports progress.
const talkDir = "PAWL_TEST_TALK_DIR"

const (
	talkRuns    = 8
	talkUpdates = 40 // number of updates of each run
	beatEvery   = 10 * time.Millisecond
	beatsInAll  = 600
)

var raise pawl.Update[int, int] = "raise"

// counter returns a workflow that answers each update with the number of updates accepted before.
func counter() *pawl.Workflow[none, int] {
	return pawl.Define("counter", func(ctx pawl.Context, _ none) (int, error) {
		for n := range talkUpdates {
			err := raise.Handle(ctx, nil, func(ctx pawl.Context, _ int) (int, error) {
				return pawl.Step(ctx, "count", func(context.Context) (int, error) { return n, nil })
			}, pawl.Within("1h"))
			if err != nil {
				return 0, err
			}
		}
		return talkUpdates, nil
	}, pawl.ExecutionTimeout("1h"))
}

// copying returns a workflow with a long step that reports its progress, and goes on from there in its next attempt.
func copying(trace *os.File) *pawl.Workflow[none, int] {
	return pawl.Define("copy", func(ctx pawl.Context, _ none) (int, error) {
		return pawl.Step(ctx, "copy", func(ctx context.Context) (int, error) {
			from, _ := pawl.Heartbeat[int]{}.Last(ctx)
			if _, err := fmt.Fprintln(trace, "begin", time.Now().UnixMilli(), from); err != nil {
				return 0, err
			}
			for n := from + 1; n <= beatsInAll; n++ {
				pawl.Heartbeat[int]{}.Beat(ctx, n)
				if _, err := fmt.Fprintln(trace, "beat", time.Now().UnixMilli(), n); err != nil {
					return 0, err
				}
				if err := wait(ctx, beatEvery); err != nil {
					return 0, err
				}
			}
			return beatsInAll, nil
		}, pawl.HeartbeatTimeout("1m"), pawl.Timeout("1h"), pawl.Retry("fixed(3, 10ms)"))
	}, pawl.ExecutionTimeout("1h"))
}

// talkAndBeat runs the program. It sends all updates, those of earlier lives again, and ends when all is done.
func talkAndBeat(dir string) error {
	trace, err := os.OpenFile(filepath.Join(dir, "trace"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	count, beat := counter(), copying(trace)
	fired := pawl.Define("fired", func(pawl.Context, none) (none, error) { return none{}, nil })
	ctx := context.Background()
	e, err := pawl.Open(ctx, pawl.Config{
		Database: "sqlite:" + filepath.Join(dir, "pawl.db"), Workflows: []pawl.Definition{count, beat, fired},
	})
	if err != nil {
		return err
	}
	if _, err := fired.EnsureSchedule(ctx, e, "tick", client.Schedule{Cron: "@every 1s"}, none{}); err != nil {
		return err
	}
	if _, err := beat.Start(ctx, e, "copy", none{}, pawl.UseExisting()); err != nil {
		return err
	}
	sent := make(chan error)
	for run := range talkRuns {
		go func() { sent <- sendAll(ctx, e, count, run, trace) }()
	}
	for range talkRuns {
		err = errors.Join(err, <-sent)
	}
	_, copied := pawl.RunOf[int](e, "copy").Result(ctx)
	return errors.Join(err, copied, e.Close())
}

// sendAll sends a run its updates and notes each answer.
func sendAll(ctx context.Context, e *pawl.Engine, w *pawl.Workflow[none, int], run int, trace *os.File) error {
	id := fmt.Sprint("counter-", run)
	if _, err := w.Start(ctx, e, id, none{}, pawl.IdempotencyKey(id)); err != nil {
		return err
	}
	for n := range talkUpdates {
		answer, err := raise.Send(ctx, e, id, n, pawl.SendID(fmt.Sprint("update-", n)))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(trace, "answer", run*talkUpdates+n, answer); err != nil {
			return err
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// TestCrashTalk kills a program at random instants. An update has one answer however often it is sent, a schedule
// starts one run for each instant, and a step loses no more progress than is not recorded yet.
func TestCrashTalk(t *testing.T) {
	dir := t.TempDir()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	kills := nightly.Few(1, 5)
	trace := filepath.Join(dir, "trace")
	for n := 0; n < kills || n < kills+8 && !wentOn(t, trace); n++ { // a busy machine may have recorded nothing
		span := time.Duration(1200+rng.IntN(1000)) * time.Millisecond
		liveOnce(t, talkDir+"="+dir, span, true, trace)
	}
	liveOnce(t, talkDir+"="+dir, 0, false, trace)
	checkTalk(t, trace)
	checkFired(t, dir)
}

// wentOn reports whether an attempt went on from what one before had reported.
func wentOn(t *testing.T, trace string) bool {
	t.Helper()
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^begin \d+ [1-9]`).Match(text)
}

// checkTalk holds what the program has noted against the promises. That a report is recorded within a second is tested
// in virtual time: here a busy machine decides how long it takes. What is recorded stays.
func checkTalk(t *testing.T, trace string) {
	t.Helper()
	f, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	answers := map[int]int{} // the answers by update
	beats := map[int]bool{}  // the steps of the progress that were reported
	from, repeated, goneOn := 0, 0, 0
	for s := bufio.NewScanner(f); s.Scan(); {
		var what string
		var a int64
		var b int
		if _, err := fmt.Sscan(s.Text(), &what, &a, &b); err != nil {
			t.Fatalf("%q: %v", s.Text(), err)
		}
		switch what {
		case "answer":
			if before, again := answers[int(a)]; again && before != b {
				t.Errorf("update %d was answered with %d and with %d", a, before, b)
			} else if again {
				repeated++
			}
			answers[int(a)] = b
		case "begin":
			if b > 0 {
				goneOn++
			}
			if b < from {
				t.Errorf("an attempt goes on from %d, the one before went on from %d", b, from)
			}
			from = b
		case "beat":
			beats[b] = true
		}
	}
	if len(answers) != talkRuns*talkUpdates || len(beats) != beatsInAll || repeated == 0 || goneOn == 0 {
		t.Errorf("%d updates were answered, %d of them again; %d reports, %d attempts that went on",
			len(answers), repeated, len(beats), goneOn)
	}
	for update, answer := range answers {
		if answer != update%talkUpdates { // they were sent one after the other
			t.Errorf("update %d was answered with %d", update, answer)
		}
	}
}

// checkFired checks that each instant since the first one has one run, or is among those that were missed.
func checkFired(t *testing.T, dir string) {
	t.Helper()
	e, err := pawl.Open(t.Context(), pawl.Config{Database: "sqlite:" + filepath.Join(dir, "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	runs, err := e.ListRuns(t.Context(), client.Query{Workflow: "fired", Limit: 1000})
	if err != nil || len(runs) < 2 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	fired := map[string]bool{}
	first, last := time.Time{}, time.Time{}
	for _, r := range runs {
		if fired[r.WorkflowID] {
			t.Errorf("%s was fired twice", r.WorkflowID)
		}
		fired[r.WorkflowID] = true
		at, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(r.WorkflowID, "tick@"))
		if err != nil {
			t.Fatal(err)
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	d, err := pawl.ScheduleOf(e, "tick").Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if instants := int(last.Sub(first)/time.Second) + 1; len(runs)+d.Missed < instants {
		t.Errorf("%d runs and %d missed, of %d instants", len(runs), d.Missed, instants)
	}
}
