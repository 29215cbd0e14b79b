package facetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

func TestRerun(t *testing.T) {
	var calls []string
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		for _, name := range []string{"a", "b", "b", "c"} {
			err := pawl.Do(ctx, name, func(ctx context.Context) error {
				info := pawl.Attempt(ctx)
				calls = append(calls, info.Step)
				return nil
			})
			if err != nil {
				return 0, err
			}
		}
		return len(calls), pawl.Sleep(ctx, "rest", "1h")
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, err := w.Start(t.Context(), e, "w", none{})
		if err != nil {
			t.Fatal(err)
		}
		e.Settle()
		_, err = e.RestartRun(t.Context(), r.ID, client.RestartRequest{From: "b"})
		if !errors.Is(err, pawl.ErrConflict) {
			t.Errorf("an open run: %v", err)
		}
		if _, err := r.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		for want, again := range map[string]client.RestartRequest{
			"[a b b#2 c]": {},
			"[b b#2]":     {Steps: []string{"b"}},
			"[b#2]":       {Steps: []string{"b#2"}},
			"[a c]":       {Steps: []string{"a", "c"}},
			"[b b#2 c]":   {From: "b"},
			"[b#2 c]":     {From: "b#2"},
		} {
			calls = nil
			id, err := e.RestartRun(t.Context(), r.ID, again)
			if err != nil {
				t.Errorf("%s: %v", want, err)
				continue
			}
			if _, err := pawl.RunOf[int](e, id).Result(t.Context()); err != nil || fmt.Sprint(calls) != want {
				t.Errorf("made again were %v, %v; want %s", calls, err, want)
			}
		}
		for _, again := range []client.RestartRequest{{Steps: []string{"x"}}, {From: "x"}} {
			if _, err := e.RestartRun(t.Context(), r.ID, again); !errors.Is(err, pawl.ErrNotFound) {
				t.Errorf("a step that is not there: %v", err)
			}
		}
		both := client.RestartRequest{From: "a", Steps: []string{"b"}}
		if _, err := e.RestartRun(t.Context(), r.ID, both); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("both: %v", err)
		}
		for phases, want := range map[client.Phase]int{"succeeded": 7, "failed": 0} {
			if runs, err := e.ListRuns(t.Context(), client.Query{Phases: []client.Phase{phases}}); err != nil ||
				len(runs) != want {
				t.Errorf("%d runs have %s, want %d; %v", len(runs), phases, want, err)
			}
		}
		_, err = e.ListRuns(t.Context(), client.Query{Phases: []client.Phase{"happy"}})
		if !errors.Is(err, pawl.ErrInvalid) ||
			!strings.Contains(err.Error(), `list: phase: "happy" where one of pending, `) {
			t.Errorf("an unknown phase: %v", err)
		}
	}, w)
}

// TestRerunFailed checks that a rerun of what failed makes that again, and what the function did after it had seen the
// failure. A run of which nothing failed is refused.
func TestRerunFailed(t *testing.T) {
	var calls []string
	broken := true
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		do := func(name string) error {
			return pawl.Do(ctx, name, func(context.Context) error {
				calls = append(calls, name)
				if name == "charge" && broken {
					return errors.New("no luck")
				}
				return nil
			}, pawl.Retry("none"))
		}
		if err := do("prepare"); err != nil {
			return 0, err
		}
		if do("charge") != nil {
			if err := do("fallback"); err != nil {
				return 0, err
			}
		}
		return 0, do("report")
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "w", none{})
		if _, err := r.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		calls, broken = nil, false
		both := client.RestartRequest{Failed: true, From: "charge"}
		if _, err := e.RestartRun(t.Context(), r.ID, both); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("both: %v", err)
		}
		id, err := e.RestartRun(t.Context(), r.ID, client.RestartRequest{Failed: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pawl.RunOf[int](e, id).Result(t.Context()); err != nil || fmt.Sprint(calls) != "[charge report]" {
			t.Errorf("made again were %v, %v", calls, err)
		}
		_, err = e.RestartRun(t.Context(), id, client.RestartRequest{Failed: true})
		if !errors.Is(err, pawl.ErrConflict) || !strings.Contains(err.Error(), "no step and no item of it failed") {
			t.Errorf("nothing failed: %v", err)
		}
	}, w)
}

// veiled is a codec whose payloads say nothing to others.
type veiled struct{}

func (veiled) Encode(_ context.Context, _ *pawl.Payload, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	return append(append([]byte{'"'}, base64.StdEncoding.EncodeToString(b)...), '"'), err
}

func (veiled) Decode(_ context.Context, _ pawl.Payload, data []byte, v any) error {
	b, err := base64.StdEncoding.DecodeString(string(data[1 : len(data)-1]))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// TestReplayWithACodec checks that a history is read with the codec it was written with.
func TestReplayWithACodec(t *testing.T) {
	define := func(changed bool) *pawl.Workflow[string, int] {
		return pawl.Define("w", func(ctx pawl.Context, name string) (int, error) {
			if name != "ann" || changed {
				return 0, fmt.Errorf("the input is %q", name)
			}
			n, err := pawl.Step(ctx, "s", func(context.Context) (int, error) { return 41, nil })
			if err != nil || n != 41 {
				return 0, fmt.Errorf("the result is %d, %w", n, err)
			}
			return n + 1, pawl.Sleep(ctx, "rest", time.Hour)
		})
	}
	w := define(false)
	cfg := pawl.Config{Codec: veiled{}}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "w", "ann")
		if got, err := r.Result(t.Context()); err != nil || got != 42 {
			t.Fatalf("%d, %v", got, err)
		}
		history, err := e.History(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		pawltest.ReplayWith(t, cfg, w, history)
		var changed *pawl.ChangedError
		if err := pawl.Replay(t.Context(), cfg, define(true), history); !errors.As(err, &changed) {
			t.Errorf("changed code: %v", err)
		}
		if err := pawl.Replay(t.Context(), cfg, w, nil); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("no history: %v", err)
		}
		if err := pawl.Replay(t.Context(), cfg, w, []byte("not a history")); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("garbage: %v", err)
		}
	})
}

// TestReplayEndsWithItsContext checks that everything a replay has begun ends with its context.
func TestReplayEndsWithItsContext(t *testing.T) {
	blocks := false
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		beside := pawl.Go(ctx, "beside", func(ctx pawl.Context) (int, error) { return 0, pawl.Sleep(ctx, "nap", "1h") })
		if blocks {
			blockHere(ctx)
		}
		return beside.Get(ctx)
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if _, err := w.Start(t.Context(), e, "w", none{}); err != nil {
			t.Fatal(err)
		}
		e.Skip(time.Minute)
		history, err := e.History(t.Context(), "w")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		blocks = true
		if err := pawl.Replay(ctx, pawl.Config{}, w, history); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		blocks = false
	}, w)
}

// TestReplayFindsALostCancel checks that a replay reports a cancel that is recorded and that the code does not make any
// more: at the end of the body, and where it waits. The code that recorded the history passes.
func TestReplayFindsALostCancel(t *testing.T) {
	cancels, ends := true, false
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		inner, cancel := pawl.WithCancel(ctx)
		nap := pawl.SleepAsync(inner, "nap", "1h")
		if err := pawl.Sleep(ctx, "short", "1s"); err != nil {
			return 0, err
		}
		if cancels {
			cancel()
		}
		if ends {
			return 1, nil
		}
		if err := pawl.Sleep(ctx, "long", "2h"); err != nil {
			return 0, err
		}
		_, _ = nap.Get(ctx)
		return 1, nil
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		for _, ended := range []bool{false, true} {
			id := fmt.Sprint("ended-", ended)
			cancels, ends = true, ended
			if _, err := w.Start(t.Context(), e, id, none{}); err != nil {
				t.Fatal(err)
			}
			e.Skip(time.Minute)
			history, err := e.History(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if err := pawl.Replay(t.Context(), pawl.Config{}, w, history); err != nil {
				t.Errorf("%s: the code that recorded it: %v", id, err)
			}
			cancels = false
			var changed *pawl.ChangedError
			if err := pawl.Replay(t.Context(), pawl.Config{}, w, history); !errors.As(err, &changed) ||
				!strings.Contains(changed.Recorded, `cancel of "scope[1]"`) {
				t.Errorf("%s: without the cancel: %v", id, err)
			}
			cancels = true
		}
	}, w)
}
