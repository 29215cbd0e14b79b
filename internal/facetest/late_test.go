package facetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestLateEnds checks attempts that succeed after their limit has fired and before their worker is told, as a slow
// disk allows. The body has gone on by then with the result that is not taken: its decisions on that result are void,
// the later ones too, and everything that ended beside it has ended.
func TestLateEnds(t *testing.T) {
	for name, c := range map[string]struct {
		beside   string
		computes time.Duration
	}{
		"in one commit":   {"1m0.501s", 1500 * time.Microsecond},
		"in two":          {"1m0.501s", 0},
		"long after that": {"1m0.7s", 0},
	} {
		var p play
		p.at("1m0.5s").ends("late") // its limit counts from the start of the run
		p.at(c.beside).ends("beside")
		w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
			late := pawl.Async(ctx, "late", func(ctx context.Context) (int, error) {
				return pawl.Attempt(ctx).Number, p.step(context.WithoutCancel(ctx))
			}, pawl.AttemptTimeout(time.Minute), pawl.Retry("fixed(2, 1h)"))
			beside := pawl.Async(ctx, "beside", func(ctx context.Context) (none, error) { return none{}, p.step(ctx) })
			n, err := late.Get(ctx)
			if err != nil {
				return "", err
			}
			<-time.After(c.computes) //pawlvet:ignore virtual time, in which the body computes
			then := func(name string) *pawl.Future[int] {
				return pawl.Async(ctx, fmt.Sprint(name, n), func(context.Context) (int, error) { return n, nil })
			}
			first := then("first")
			if _, err := beside.Get(ctx); err != nil {
				return "", err
			}
			return fmt.Sprint("attempt ", n), second(pawl.All(ctx, then("second"), first))
		})
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { p.wantOutput(started(t, p.open(t, w), w, "", none{}), "attempt 2") })
		})
	}
}

// beforeWhatFollows returns a play in which somebody operates on a run while what its body makes of a failed step is on
// its way.
func beforeWhatFollows(op pawl.Operation) *play {
	p := &play{}
	large := strings.Repeat("x", 1_200_000) // a batch takes nothing more after it
	p.at("4.5s").sends("")                  // it is on its way until 5.5s
	p.at("4.6s").sends(large)
	p.at("5.45s").fails("pay") // that is heard of at 5.5s, and what follows it at 6.5s
	p.at("5.46s").sends(large)
	p.at("5.47s").operates(op)
	return p
}

// TestRetryBeforeWhatFollows checks that an operator can retry a step while the end of its run, which its failure has
// caused, is on its way. The body is called anew, and that end is void.
func TestRetryBeforeWhatFollows(t *testing.T) {
	p := beforeWhatFollows(pawl.Operation{Op: client.OpRetryStep, Step: "pay"})
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		if err := pawl.Do(ctx, "pay", p.step, pawl.Retry("fixed(1, 1s)")); err != nil {
			return "", err
		}
		return "sent", pawl.Do(ctx, "send", p.step)
	})
	bubble(t, func(t *testing.T) {
		e := p.open(t, w)
		r := started(t, e, w, "", none{})
		p.goes(r.ID)
		p.wantOutput(r, "sent")
		if d, err := e.DescribeRun(t.Context(), r.ID); err != nil || len(d.Steps) != 2 {
			t.Errorf("%v: %+v", err, d.Steps)
		}
	})
}

// TestPauseBeforeWhatFollows checks a run that is paused while its body has a child run on its way. The child begins
// when the run goes on.
func TestPauseBeforeWhatFollows(t *testing.T) {
	p := beforeWhatFollows(pawl.Operation{Op: client.OpPause})
	child := pawl.Define("child", func(pawl.Context, none) (string, error) { return "paid by the child", nil })
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		if err := pawl.Do(ctx, "pay", p.step, pawl.Retry("fixed(1, 1s)")); err == nil {
			return "", nil
		}
		return pawl.Child(ctx, "pays", child, none{})
	})
	bubble(t, func(t *testing.T) {
		e := p.open(t, w, child)
		r := started(t, e, w, "", none{})
		p.goes(r.ID)
		<-time.After(time.Minute)
		if d, err := e.DescribeRun(t.Context(), r.ID); err != nil || d.Phase != "paused" || len(d.Steps) != 1 {
			t.Errorf("%s, %v; want nothing new: %+v", d.Phase, err, d.Steps)
		}
		must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpResume}))
		p.wantOutput(r, "paid by the child")
	})
}

// TestRetryThatEndsAtOnce checks the retry of a wait whose event has come by then. The body hears that the wait has
// ended in another way than before, and says again that it waits.
func TestRetryThatEndsAtOnce(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		f := pawl.Event[string]("approved").WaitAsync(ctx, pawl.Within("10s"))
		if err := pawl.Sleep(ctx, "nap", "1h"); err != nil {
			return "", err
		}
		return f.Get(ctx)
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "", none{})
		e.Skip(10*time.Second + 50*time.Millisecond)
		must(t, pawl.Event[string]("approved").Send(t.Context(), e, r.ID, "yes"))
		must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpRetryStep, Step: "approved"}))
		e.Skip(time.Minute)
		if d, err := e.DescribeRun(t.Context(), r.ID); err != nil || d.Phase != "waiting" {
			t.Errorf("%s, %v; want waiting", d.Phase, err)
		}
		if got, err := r.Result(t.Context()); err != nil || got != "yes" {
			t.Errorf("%q, %v", got, err)
		}
	}, w)
}

// TestRetryInAPause checks a step that ends and is retried while its run is paused. Its body hears of neither, and
// says again that it waits when the run goes on.
func TestRetryInAPause(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		return pawl.Event[string]("approved").Wait(ctx)
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "", none{})
		e.Skip(50 * time.Millisecond)
		for _, op := range []pawl.Operation{
			{Op: client.OpPause},
			{Op: client.OpFail, Step: "approved"},
			{Op: client.OpRetryStep, Step: "approved"},
			{Op: client.OpResume},
		} {
			must(t, e.Operate(t.Context(), r.ID, op))
		}
		e.Skip(time.Minute)
		if d, err := e.DescribeRun(t.Context(), r.ID); err != nil || d.Phase != "waiting" {
			t.Errorf("%s, %v; want waiting", d.Phase, err)
		}
	}, w)
}

// TestRetryBeforeTheEndIsDurable checks a run that is opened again while its end is on its way to the disk.
func TestRetryBeforeTheEndIsDurable(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		//pawlvet:ignore nobody waits for it here
		pawl.Event[string]("approved").WaitAsync(ctx)
		if err := pawl.Sleep(ctx, "nap", "10s"); err != nil {
			return "", err
		}
		return "", &declined{Code: 7}
	})
	bubble(t, func(t *testing.T) {
		var p play
		// It fails at 10s, which is heard of a second later.
		p.at("10.5s").operates(pawl.Operation{Op: client.OpRetryStep, Step: "approved"})
		e := p.open(t, w)
		r := started(t, e, w, "", none{})
		p.goes(r.ID)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var own *declined
		if _, err := r.Result(ctx); !errors.As(err, &own) {
			t.Errorf("%v; problem: %v", err, e.Problem(r.ID))
		}
	})
}
