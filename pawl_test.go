package pawl

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/golden"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// Here are the examples, and the tests of what no program can see. The other tests of this package are in
// internal/facetest.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStartsAreWhole checks that a service is asked for whatever a program says about a start.
func TestStartsAreWhole(t *testing.T) {
	for field, r := range golden.Each[client.StartRequest]() {
		switch field {
		case "Workflow", "Steps", "From": // how the service is asked
			continue
		case "At":
			r.At = time.Now()
		case "Deadline":
			r.Deadline = time.Now()
		}
		if reflect.DeepEqual(asked(&r), api.StartRequest{}) {
			t.Errorf("a start with %s is as one without it", field)
		}
	}
}

// TestBodiesOfEndedRunsAreForgotten checks that a run that ends while its body cannot go on, or because of what the
// body did with its context, leaves no call of a body behind.
func TestBodiesOfEndedRunsAreForgotten(t *testing.T) {
	foreign := func(ctx Context) error { return Sleep(ctx, "nap", "1h") }
	for name, body := range map[string]func(ctx Context) error{
		"blocks": func(ctx Context) error {
			<-ctx.Done()
			return nil
		},
		"begins a goroutine": func(ctx Context) error {
			told := make(chan error)
			go func() { told <- foreign(ctx) }() //pawlvet:ignore the mistake that is tested
			return <-told                        //pawlvet:ignore the mistake that is tested
		},
		"uses the body's context in a branch": func(ctx Context) error {
			_, err := Go(ctx, "b", func(Context) (int, error) { return 0, foreign(ctx) }).Get(ctx)
			return err
		},
	} {
		w := Define("w", func(ctx Context, _ struct{}) (int, error) { return 0, body(ctx) })
		synctest.Test(t, func(t *testing.T) {
			e, err := Open(t.Context(), Config{Journal: memory.New(), Workflows: []Definition{w}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close() }()
			r, err := w.Start(t.Context(), e, "", struct{}{})
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Minute) // a body that cannot go on has stopped twice
			if name == "blocks" {
				if n := e.own.host.bodies.Sessions(); n != 1 {
					t.Errorf("%s: %d calls of bodies are known while the run is open", name, n)
				}
				if err := e.Operate(t.Context(), r.ID, Operation{Op: client.OpTerminate}); err != nil {
					t.Fatal(err)
				}
			} else if _, err := r.Result(t.Context()); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v is not ErrInvalid", name, err)
			}
			<-time.After(time.Hour)
			if n := e.own.host.bodies.Sessions(); n != 0 {
				t.Errorf("%s: the engine keeps %d calls of bodies of runs that have ended", name, n)
			}
		})
	}
}

// TestPlainValues compares what is read and written without encoding/json with encoding/json.
func TestPlainValues(t *testing.T) {
	for _, text := range []string{
		"0", "-0", "1", "-1", "007", "-", "", "12 ", " 12", "1.0", "1e3", "+1", "--1", "1-", "999999999999999999",
		"-999999999999999999", strconv.Itoa(math.MaxInt64), strconv.Itoa(math.MinInt64), "9223372036854775808",
		"true", "false", "True", "tru", "null", `"text"`, `"1"`, "{}", "[1]", "0x10", "1_000",
	} {
		for _, to := range []any{new(int), new(int64), new(bool), new(string), new(any)} {
			want := reflect.New(reflect.TypeOf(to).Elem()).Interface()
			err := json.Unmarshal([]byte(text), want)
			if readPlain([]byte(text), to) && (err != nil || !reflect.DeepEqual(to, want)) {
				t.Errorf("%q is read as %v into a %T; encoding/json: %v, %v", text, reflect.ValueOf(to).Elem(), to,
					reflect.ValueOf(want).Elem(), err)
			}
		}
	}
	for _, v := range []any{
		0, -1, math.MaxInt, math.MinInt, int64(math.MinInt64), true, false, "text", "", `"`, "a<b", "\x00", 1.5, nil,
	} {
		want, err := json.Marshal(v)
		if b, ok := writePlain(v); ok && (err != nil || string(b) != string(want)) {
			t.Errorf("%v is written as %s; encoding/json: %s, %v", v, b, want, err)
		}
	}
	for text, to := range map[string]any{"12": new(int), "-12": new(int64), "true": new(bool), `"x"`: new(string)} {
		if !readPlain([]byte(text), to) {
			t.Errorf("%s is not read", text)
		}
	}
}

// FuzzText compares how payloads are read as text with encoding/json.
func FuzzText(f *testing.F) {
	for _, seed := range []string{
		`"plain"`, `""`, `"größer 世界"`, `"a\nb"`, `"a"b"`, `"\"`, `"`, ``, `"a` + "\n" + `b"`, `"` + "\x7f" + `"`,
		`"` + "\xff" + `"`, ` "a"`, `"a" `, `null`, `1`, `"\u00e9"`, `"` + strings.Repeat("x", 100) + "\x1f" + `"`,
		"eight by", "a<b", "a>b", "a&b", "a\u2028", "\x00", "\u00e9 and more than eight", "\xe9 and more",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		var want string
		wantErr := json.Unmarshal([]byte(payload), &want)
		got, ok := plainText([]byte(payload))
		if ok && (wantErr != nil || got != want) {
			t.Errorf("%q is read as %q; encoding/json: %q, %v", payload, got, want, wantErr)
		}
		for _, text := range []string{payload, want} {
			encoded, err := json.Marshal(text)
			if b, ok := writeText(text); ok && (err != nil || string(b) != string(encoded)) {
				t.Errorf("%q is written as %s; encoding/json: %s, %v", text, b, encoded, err)
			} else if !ok && string(encoded) == `"`+text+`"` {
				t.Errorf("%q is not taken for plain text", text)
			}
		}
		plain := wantErr == nil && strings.HasPrefix(payload, `"`) && payload == `"`+want+`"`
		if plain && !ok {
			t.Errorf("%q is not taken for plain text", payload)
		}
	})
}
