package facetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
	historyfile "github.com/pawl-dev/pawl/internal/history"
	"github.com/pawl-dev/pawl/journal/memory"
)

// secret is what no journal may show.
const secret = "4111-1111"

// hiding is a codec that hides what it encodes. Once its key is lost, it cannot read the secret, and once it is mute,
// it encodes nothing for good.
type hiding struct{ lost, mute bool }

func (c *hiding) Encode(_ context.Context, _ *pawl.Payload, v any) ([]byte, error) {
	plain, err := json.Marshal(v)
	if err != nil || c.mute {
		return nil, pawl.NonRetryable(errors.Join(err, errors.New("the key is gone")))
	}
	for i := range plain {
		plain[i] ^= 0x5a
	}
	return json.Marshal(plain)
}

func (c *hiding) Decode(_ context.Context, _ pawl.Payload, data []byte, v any) error {
	var plain []byte
	if err := json.Unmarshal(data, &plain); err != nil {
		return err
	}
	for i := range plain {
		plain[i] ^= 0x5a
	}
	if c.lost && bytes.Contains(plain, []byte(secret)) {
		return errors.New("the key is gone")
	}
	return json.Unmarshal(plain, v)
}

// cardError is an error with data that must not be read by others.
type cardError struct{ Card string }

func (e *cardError) Error() string { return "card " + e.Card + " was declined" }

var errBlocked = errors.New("blocked")

func init() {
	pawl.RegisterError[*cardError]("card")
	pawl.RegisterErrorValue("blocked", errBlocked)
}

// TestFailuresPassTheCodec checks that no history holds the text of errors and panics in plain, and that the program
// reads that text unchanged. Kinds and types stay readable.
func TestFailuresPassTheCodec(t *testing.T) {
	declined := func(context.Context) (int, error) { return 0, pawl.NonRetryable(&cardError{secret}) }
	isDeclined := func(err error) bool {
		var own *cardError
		return errors.As(err, &own) && own.Card == secret && strings.Contains(err.Error(), secret)
	}
	child := pawl.Define("child", func(ctx pawl.Context, _ string) (int, error) {
		return pawl.Step(ctx, "charge", declined)
	})
	for name, c := range map[string]struct {
		body    func(ctx pawl.Context) (int, error)
		is      func(err error) bool
		visible string // the part that the history shows
	}{
		"a step's error": {
			func(ctx pawl.Context) (int, error) { return pawl.Step(ctx, "charge", declined) }, isDeclined, "card",
		},
		"a step that panics": {
			func(ctx pawl.Context) (int, error) {
				return pawl.Step(ctx, "charge", func(context.Context) (int, error) { panic(secret) })
			},
			func(err error) bool {
				var p *pawl.PanicError
				return errors.As(err, &p) && p.Value == secret && p.At != "" && p.Stack != ""
			}, "panic",
		},
		"a body's error": {
			func(pawl.Context) (int, error) { return 0, &cardError{secret} }, isDeclined, "card",
		},
		"a body that panics": {
			func(pawl.Context) (int, error) { panic(secret) },
			func(err error) bool {
				var p *pawl.PanicError
				return errors.As(err, &p) && p.Value == secret
			}, "panic",
		},
		"joined errors": {
			func(ctx pawl.Context) (int, error) {
				return pawl.Step(ctx, "charge", func(context.Context) (int, error) {
					return 0, pawl.NonRetryable(errors.Join(errBlocked, &cardError{secret}))
				})
			}, func(err error) bool { return isDeclined(err) && errors.Is(err, errBlocked) }, "blocked",
		},
		"a child run's error": {
			func(ctx pawl.Context) (int, error) { return pawl.Child(ctx, "child", child, secret) }, isDeclined, "card",
		},
		"a timeout after an error": {
			func(ctx pawl.Context) (int, error) {
				return pawl.Step(ctx, "charge", func(context.Context) (int, error) { return 0, &cardError{secret} },
					pawl.Retry("fixed(100, 1m)"), pawl.Timeout("150s"))
			}, func(err error) bool { return isDeclined(err) && errors.Is(err, pawl.ErrTimedOut) }, "card",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hooked error
				w := pawl.Define("pay", func(ctx pawl.Context, _ string) (int, error) { return c.body(ctx) },
					pawl.OnFailure(func(_ context.Context, _ string, cause error) error {
						hooked = cause
						return nil
					}))
				e := openHiding(t, &hiding{}, w, child)
				run, err := w.Start(t.Context(), e, "", secret)
				if err != nil {
					t.Fatal(err)
				}
				_, err = run.Result(t.Context())
				if !c.is(err) || !c.is(hooked) {
					t.Errorf("the result is %v, the hook got %v", err, hooked)
				}
				d, err := e.DescribeRun(t.Context(), run.ID)
				if err != nil || d.Failure == nil || !strings.Contains(d.Failure.Error(), secret) {
					t.Errorf("DescribeRun: %v, %v", d.Failure, err)
				}
				x, err := e.Explain(t.Context(), run.ID)
				if err != nil || x.Failure == nil || !strings.Contains(x.Failure.Error(), secret) {
					t.Errorf("Explain: %v, %v", x.Failure, err)
				}
				checkHidden(t, e, c.visible)
			})
		})
	}
}

func openHiding(t *testing.T, c pawl.Codec, workflows ...pawl.Definition) *pawl.Engine {
	t.Helper()
	e, err := pawl.Open(t.Context(), pawl.Config{Journal: memory.New(), Codec: c, Workflows: workflows})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// checkHidden fails where any history shows the secret, or none shows what has to be readable.
func checkHidden(t *testing.T, e *pawl.Engine, visible string) {
	t.Helper()
	runs, err := e.ListRuns(t.Context(), client.Query{Limit: 100})
	if err != nil || len(runs) == 0 {
		t.Fatal(runs, err)
	}
	var all []byte
	for _, r := range runs {
		history, err := e.History(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, history...)
		entries, err := historyfile.Read(history)
		if err != nil {
			t.Fatal(err)
		}
		for i := range entries {
			all = core.AppendEntry(all, &entries[i])
		}
		x, err := e.Explain(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		shown, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, shown...)
	}
	if bytes.Contains(all, []byte(secret)) || bytes.Contains(all, []byte("_test.go")) {
		t.Error("the history shows the secret, or the code")
	}
	if !bytes.Contains(all, []byte(visible)) {
		t.Errorf("the history does not show %q", visible)
	}
}

// TestOperatorsErrorPassesTheCodec checks that the error that an operator gives a step passes the codec.
func TestOperatorsErrorPassesTheCodec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := pawl.Define("pay", func(ctx pawl.Context, _ string) (int, error) {
			return pawl.Event[int]("paid").Wait(ctx)
		})
		e := openHiding(t, &hiding{}, w)
		run := started(t, e, w, "", secret)
		synctest.Wait()
		op := pawl.Operation{Op: client.OpFail, Step: "paid", Err: &cardError{secret}}
		must(t, e.Operate(t.Context(), run.ID, op))
		var own *cardError
		if _, err := run.Result(t.Context()); !errors.As(err, &own) || own.Card != secret {
			t.Errorf("the result is %v", err)
		}
		checkHidden(t, e, "card")
	})
}

// TestUpdatesPassTheCodec checks that the errors with which a body answers or refuses an update pass the codec.
func TestUpdatesPassTheCodec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pay := pawl.Update[bool, int]("pay")
		w := pawl.Define("pay", func(ctx pawl.Context, _ string) (int, error) {
			return 0, pay.Handle(ctx, func(valid bool) error {
				if !valid {
					return &cardError{secret}
				}
				return nil
			}, func(pawl.Context, bool) (int, error) { return 0, &cardError{secret} })
		})
		e := openHiding(t, &hiding{}, w)
		run := started(t, e, w, "", "")
		for _, valid := range []bool{false, true} {
			_, err := pay.Send(t.Context(), e, run.ID, valid)
			var own *cardError
			if !errors.As(err, &own) || own.Card != secret || !strings.Contains(err.Error(), secret) {
				t.Errorf("valid %t: the answer is %v", valid, err)
			}
		}
		checkHidden(t, e, "card")
	})
}

// TestCodecThatCannotEncodeFailures checks that a failure is recorded without its text rather than in plain text or
// not at all.
func TestCodecThatCannotEncodeFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &hiding{}
		w := pawl.Define("pay", func(pawl.Context, string) (int, error) {
			c.mute = true
			return 0, &cardError{secret}
		})
		e := openHiding(t, c, w)
		run := started(t, e, w, "", secret)
		if _, err := run.Result(t.Context()); err == nil || !strings.Contains(fmt.Sprint(err), "could not encode") {
			t.Errorf("the result is %v", err)
		}
		checkHidden(t, e, "card")
	})
}

// TestBodyWaitsWhereFailuresCannotBeRead checks that a body waits while no codec can read a step's error: without the
// error it might decide something else.
func TestBodyWaitsWhereFailuresCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &hiding{}
		w := pawl.Define("pay", func(ctx pawl.Context, _ string) (string, error) {
			_, err := pawl.Step(ctx, "charge", func(context.Context) (int, error) {
				c.lost = true
				return 0, pawl.NonRetryable(&cardError{secret})
			})
			var own *cardError
			return fmt.Sprint(errors.As(err, &own)), nil
		})
		e := openHiding(t, c, w)
		run := started(t, e, w, "", "")
		<-time.After(time.Minute)
		if err := e.Problem(run.ID); err == nil || !strings.Contains(err.Error(), "the failure of step charge") {
			t.Errorf("Problem: %v", err)
		}
		c.lost = false
		if got, err := run.Result(t.Context()); got != "true" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}
