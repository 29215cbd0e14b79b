package facetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/journal/memory"
)

var errNoKeys = errors.New("the key service does not answer")

// keyService is a codec whose keys can be away for a while. It notes what it is asked for.
type keyService struct {
	mu      sync.Mutex
	away    bool // the codec answers nothing
	meta    bool // the codec keeps metadata
	encoded []string
	decoded []string
}

func (c *keyService) set(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
}

func (c *keyService) note(list *[]string, ctx context.Context, p pawl.Payload) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return errNoKeys
	}
	if p.Workflow != "pawl.schedule" {
		*list = append(*list, fmt.Sprint(p.Kind, " ", p.Workflow, " ", p.Name, " ", p.RunID != "", " ",
			ctx.Value(tenantKey{})))
	}
	return nil
}

func (c *keyService) Encode(ctx context.Context, p *pawl.Payload, v any) ([]byte, error) {
	if err := c.note(&c.encoded, ctx, *p); err != nil {
		return nil, err
	}
	if c.meta {
		p.Meta = map[string]string{"kind": p.Kind}
	}
	return json.Marshal(v)
}

func (c *keyService) Decode(ctx context.Context, p pawl.Payload, data []byte, v any) error {
	if err := c.note(&c.decoded, ctx, p); err != nil {
		return err
	}
	if c.meta && p.Meta["kind"] != p.Kind {
		return pawl.NonRetryable(fmt.Errorf("a payload of kind %s has the metadata %v", p.Kind, p.Meta))
	}
	return json.Unmarshal(data, v)
}

func openWith(t *testing.T, c pawl.Codec, workflows ...pawl.Definition) *pawl.Engine {
	t.Helper()
	e, err := pawl.Open(t.Context(), pawl.Config{
		Journal: memory.New(), Codec: c, Workflows: workflows, Propagators: []pawl.Propagator{tenants{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// TestCodecIsToldWhatItEncodes checks that each payload has the same kind where it is decoded and where it was encoded,
// its metadata is there, and every context holds the tenant.
func TestCodecIsToldWhatItEncodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &keyService{meta: true}
		paid, ask := pawl.Event[string]("paid"), pawl.Update[string, string]("ask")
		echo := pawl.Handle("echo", func(_ context.Context, in string) (string, error) { return in, nil })
		child := pawl.Define("child", func(_ pawl.Context, in string) (string, error) { return in, nil })
		tries := 0
		w := pawl.Define("w", func(ctx pawl.Context, in string) (string, error) {
			if in == "again" {
				return in, nil
			}
			out, err := pawl.Step(ctx, "s", func(ctx context.Context) (string, error) {
				if tries++; tries == 1 {
					pawl.Heartbeat[string]{}.Beat(ctx, "half")
					return "", errors.New("not yet")
				}
				details, _ := pawl.Heartbeat[string]{}.Last(ctx)
				return details, nil
			}, pawl.Retry("fixed(2, 1s)"))
			if err != nil || out != "half" {
				return out, err
			}
			_, failed := pawl.Step(ctx, "f", func(context.Context) (int, error) { return 0, errors.New(secret) })
			if failed == nil || !strings.Contains(failed.Error(), secret) {
				return "", fmt.Errorf("the step ended with %w", failed)
			}
			if _, err := echo.Call(ctx, "h", "x"); err != nil {
				return "", err
			}
			if _, err := pawl.Child(ctx, "c", child, "x"); err != nil {
				return "", err
			}
			if err := (pawl.State[string]{}).Set(ctx, "there"); err != nil {
				return "", err
			}
			if _, err := paid.Wait(ctx); err != nil {
				return "", err
			}
			err = ask.Handle(ctx, nil, func(_ pawl.Context, in string) (string, error) { return in, nil })
			if err != nil {
				return "", err
			}
			return "", pawl.ContinueAsNew(ctx, "again")
		}, pawl.OnExit(func(_ context.Context, in string, _ error) error { return nil }))
		e := openWith(t, c, w, child)
		must(t, e.Serve("", 1, echo))
		ctx := withTenant(t.Context(), "acme")
		run, err := w.Start(ctx, e, "", "in")
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if state, err := (pawl.State[string]{}).Get(ctx, e, run.ID); state != "there" || err != nil {
			t.Errorf("state %q, %v", state, err)
		}
		must(t, paid.Send(ctx, e, run.ID, "x"))
		if got, err := ask.Send(ctx, e, run.ID, "x"); got != "x" || err != nil {
			t.Errorf("answer %q, %v", got, err)
		}
		if got, err := run.Result(ctx); got != "again" || err != nil {
			t.Errorf("result %q, %v", got, err)
		}
		wantPayloads(t, "encoded", c.encoded,
			"answer w ask true acme", "event  paid true acme", "failure w f true acme", "failure w s true acme",
			"heartbeat w s true acme", "input child  false acme", "input w  false acme", "input w h true acme",
			"output child  true acme", "output w  true acme", "output w h true acme", "output w s true acme",
			"state w  true acme", "update  ask true acme")
		wantPayloads(t, "decoded", c.decoded,
			"answer  ask true acme", "event w paid true acme", "failure w f true acme", "heartbeat w s true acme",
			"input child  true acme", "input w  true acme", "input w h true acme", "input w onExit true acme",
			"output w  true acme", "output w c true acme", "output w h true acme", "output w s true acme",
			"state w  true acme", "update w ask true acme")
	})
}

func wantPayloads(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestStepWaitsForItsCodec checks that a step whose function has returned neither runs again nor loses its result or
// its error because the codec cannot encode them for now. Its log tells the reason.
func TestStepWaitsForItsCodec(t *testing.T) {
	for name, fails := range map[string]bool{"a result": false, "an error": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, charged := &keyService{}, 0
				w := pawl.Define("w", func(ctx pawl.Context, _ int) (string, error) {
					out, err := pawl.Step(ctx, "charge", func(context.Context) (string, error) {
						charged++
						c.set(true)
						time.AfterFunc(time.Hour, func() { c.set(false) })
						if fails {
							return "", pawl.NonRetryable(&cardError{secret})
						}
						return "paid", nil
					}, pawl.Retry("fixed(5, 1s)"))
					var card *cardError
					if errors.As(err, &card) {
						return "declined", nil
					}
					return out, err
				})
				e := openWith(t, c, w)
				run := started(t, e, w, "", 1)
				got, err := run.Result(t.Context())
				if want := map[bool]string{false: "paid", true: "declined"}[fails]; got != want || err != nil {
					t.Errorf("%q, %v; want %q", got, err, want)
				}
				if charged != 1 {
					t.Errorf("it was charged %d times", charged)
				}
			})
		})
	}
}

// TestStepDoesNotWaitForEver checks that the limits of a step bound also the wait for its codec.
func TestStepDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &keyService{}
		w := pawl.Define("w", func(ctx pawl.Context, _ int) (bool, error) {
			_, err := pawl.Step(ctx, "charge", func(context.Context) (string, error) {
				c.set(true)
				time.AfterFunc(time.Hour, func() { c.set(false) })
				return "paid", nil
			}, pawl.Timeout("1m"))
			return errors.Is(err, pawl.ErrTimedOut), nil
		})
		e := openWith(t, c, w)
		run := started(t, e, w, "", 1)
		if timedOut, err := run.Result(t.Context()); !timedOut || err != nil {
			t.Errorf("the step timed out: %t, %v", timedOut, err)
		}
	})
}

// TestBodyWaitsForItsCodec checks that a body gets no error when it encodes or decodes while the codec is away: with
// an error it would decide otherwise than it does the next time.
func TestBodyWaitsForItsCodec(t *testing.T) {
	child := pawl.Define("child", func(_ pawl.Context, in string) (string, error) { return in, nil })
	paid := pawl.Event[string]("paid")
	for name, test := range map[string]struct {
		body func(ctx pawl.Context) (string, error)
		says string
	}{
		"the input of a child": {func(ctx pawl.Context) (string, error) {
			return pawl.Child(ctx, "c", child, "done")
		}, `the input of child "c" cannot be encoded`},
		"the state": {func(ctx pawl.Context) (string, error) {
			return "done", pawl.State[string]{}.Set(ctx, "x")
		}, "the state cannot be encoded"},
		"an event": {func(ctx pawl.Context) (string, error) {
			return paid.Wait(ctx)
		}, "the result of paid cannot be read"},
		"the result": {func(pawl.Context) (string, error) { return "done", nil }, "the result of workflow w"},
		"the input to go on with": {func(ctx pawl.Context) (string, error) {
			if pawl.Info(ctx).Attempt == 0 {
				return "", nil
			}
			return "", pawl.ContinueAsNew(ctx, "done")
		}, "the input to go on with"},
		"an error": {func(pawl.Context) (string, error) { return "", &cardError{secret} }, "failure says"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &keyService{}
				w := pawl.Define("w", func(ctx pawl.Context, in string) (string, error) {
					if in == "done" {
						return in, nil
					}
					if err := pawl.Sleep(ctx, "rest", "1m"); err != nil {
						return "", err
					}
					return test.body(ctx)
				})
				e := openWith(t, c, w, child)
				run := started(t, e, w, "", "")
				must(t, paid.Send(t.Context(), e, run.ID, "done"))
				synctest.Wait()
				c.set(true)
				<-time.After(10 * time.Minute)
				problem := fmt.Sprint(e.Problem(run.ID))
				if !strings.Contains(problem, test.says) && !strings.Contains(problem, "the input of workflow") ||
					!strings.Contains(problem, run.ID) || !strings.Contains(problem, errNoKeys.Error()) {
					t.Errorf("the problem is %q, want %q", problem, test.says)
				}
				c.set(false)
				got, err := run.Result(t.Context())
				var card *cardError
				if got != "done" && !errors.As(err, &card) {
					t.Errorf("%q, %v", got, err)
				}
			})
		})
	}
}

// TestHandlerWaitsForItsCodec checks that a handler that cannot read its input for now has not begun, and does not
// fail.
func TestHandlerWaitsForItsCodec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &keyService{}
		echo := pawl.Handle("echo", func(_ context.Context, in string) (string, error) { return in, nil })
		w := pawl.Define("w", func(ctx pawl.Context, in string) (string, error) { return echo.Call(ctx, "h", in) })
		e := openWith(t, c, w)
		run := started(t, e, w, "", "x")
		synctest.Wait()
		c.set(true)
		must(t, e.Serve("", 1, echo))
		<-time.After(time.Minute)
		c.set(false)
		if got, err := run.Result(t.Context()); got != "x" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// brokenCodec panics once it has encoded an input.
type brokenCodec struct{ pawl.JSON }

func (c brokenCodec) Encode(ctx context.Context, p *pawl.Payload, v any) ([]byte, error) {
	if p.Kind == "output" {
		panic("the codec is broken")
	}
	return c.JSON.Encode(ctx, p, v)
}

// TestCodecThatPanics checks that the step fails, with the place of its payload, and does not run again.
func TestCodecThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		charged := 0
		w := pawl.Define("w", func(ctx pawl.Context, _ int) (int, error) {
			return pawl.Step(ctx, "charge", func(context.Context) (int, error) {
				charged++
				return 1, nil
			}, pawl.Retry("fixed(5, 1s)"))
		})
		e := openWith(t, brokenCodec{}, w)
		run, err := w.Start(t.Context(), e, "", 1)
		if err != nil {
			t.Fatal(err)
		}
		_, err = run.Result(t.Context())
		for _, want := range []string{"run " + run.ID, `the result of step "charge"`, "the codec is broken"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		if charged != 1 {
			t.Errorf("it was charged %d times", charged)
		}
	})
}

// TestPayloadsOfBefore checks that payloads that a codec wrote before it kept metadata are read without it.
func TestPayloadsOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		w := pawl.Define("w", func(ctx pawl.Context, in map[string]any) (map[string]any, error) {
			return in, pawl.Sleep(ctx, "rest", "1h")
		})
		odd := map[string]any{"pawl.meta": map[string]any{"kind": "odd"}, "data": "x"} // as if it were stored with some
		var runs []pawl.Run[map[string]any]
		for n, c := range []*keyService{{}, {meta: true}} {
			cfg := pawl.Config{Journal: j, Codec: &reader{c}, Workflows: []pawl.Definition{w}}
			e, err := pawl.Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			run := started(t, e, w, fmt.Sprint(n), odd)
			if runs = append(runs, run); n == 1 {
				for _, r := range runs {
					got, err := pawl.RunOf[map[string]any](e, r.ID).Result(t.Context())
					if err != nil || fmt.Sprint(got) != fmt.Sprint(odd) {
						t.Errorf("%v, %v; want %v", got, err, odd)
					}
				}
			}
			must(t, e.Close())
		}
	})
}

// reader is a codec that reads payloads with and without metadata.
type reader struct{ *keyService }

func (r *reader) Decode(_ context.Context, _ pawl.Payload, data []byte, v any) error {
	return json.Unmarshal(data, v)
}
