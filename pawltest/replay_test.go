package pawltest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/flow"
	_ "github.com/pawl-dev/pawl/journal/memory"
	_ "github.com/pawl-dev/pawl/journal/sqlite"
	"github.com/pawl-dev/pawl/pawlflow"
	"github.com/pawl-dev/pawl/pawltest"
)

// sealing encrypts poorly: no text of the program can be read in what it writes.
type sealing struct{}

func (sealing) Encode(_ context.Context, _ *pawl.Payload, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return json.Marshal("sealed:" + base64.StdEncoding.EncodeToString(b))
}

func (sealing) Decode(_ context.Context, _ pawl.Payload, data []byte, v any) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "sealed:"))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

type place struct{ City string }

// trip books and then waits; changed code books something else.
func trip(booking string) *pawl.Workflow[place, string] {
	return pawl.Define("trip", func(ctx pawl.Context, to place) (string, error) {
		room, err := pawl.Step(ctx, booking, func(context.Context) (string, error) { return "in " + to.City, nil })
		if err != nil {
			return "", err
		}
		if _, err := pawl.Event[string]("pay").Wait(ctx); err != nil {
			return "", err
		}
		return room, nil
	})
}

// production starts a program with its database in a file.
func production(t *testing.T) pawl.Config {
	t.Helper()
	return productionIn(t, "sqlite:"+filepath.Join(t.TempDir(), "prod.db"))
}

// productionIn starts a program that works with a database until the test ends, and returns its configuration.
func productionIn(t *testing.T, database string) pawl.Config {
	t.Helper()
	doc, err := flow.Parse("page.yaml", []byte("pawl: 1\nname: page\nsteps: [{name: w, wait: printed}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	page := pawlflow.Define[any, any](doc)
	cfg := pawl.Config{Database: database, Codec: sealing{}}
	e, err := pawl.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() }) // the runs are replayed while the program is at work
	if _, err := page.Start(t.Context(), e, "page", nil); err != nil {
		t.Fatal(err)
	}
	w := trip("book")
	for _, city := range []string{"Rome", "Oslo"} {
		r, err := w.Start(t.Context(), e, city, place{city})
		if err != nil {
			t.Fatal(err)
		}
		for waits := false; !waits; {
			d, err := e.DescribeRun(t.Context(), r.ID)
			if err != nil {
				t.Fatal(err)
			}
			waits = len(d.Steps) == 2
		}
	}
	if err := pawl.Event[string]("pay").Send(t.Context(), e, "Rome", "now"); err != nil {
		t.Fatal(err)
	}
	if _, err := pawl.RunOf[string](e, "Rome").Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestReplayDatabase replays the runs of a database that its program is working with.
func TestReplayDatabase(t *testing.T) {
	cfg := production(t)
	open := client.Query{Phases: []client.Phase{client.PhaseRunning, client.PhaseWaiting}}
	for name, c := range map[string]struct {
		workflows []pawl.Definition
		query     client.Query
		replayed  int
		want      []string // parts of the test's report; none: it passes
	}{
		"the same code": {[]pawl.Definition{trip("book")}, client.Query{}, 2, nil},
		"changed code, all runs": {
			[]pawl.Definition{trip("reserve")},
			client.Query{},
			2,
			[]string{`run Oslo (`, `run Rome (`, `is succeeded`, `"book"`, `"reserve"`},
		},
		"changed code, open runs": {
			[]pawl.Definition{trip("reserve")},
			open, 1,
			[]string{
				`is waiting and does not fit the code`,
				`workflow "trip": the code has changed: recorded is step "book"`,
			},
		},
		"the newest run": {[]pawl.Definition{trip("book")}, client.Query{Limit: 1}, 1, nil},
		"one run":        {[]pawl.Definition{trip("book")}, client.Query{WorkflowID: "Rome"}, 1, nil},
		"no such run":    {[]pawl.Definition{trip("book")}, client.Query{WorkflowID: "Ulm"}, 0, nil},
		"a workflow that is gone": {
			nil,
			client.Query{},
			0,
			[]string{`run Oslo (`, `its workflow "trip" is not in the configuration's Workflows`},
		},
		"a page of a list": {nil, client.Query{After: "x"}, 0, []string{"Query.After is for lists"}},
	} {
		cfg.Workflows = c.workflows
		replayed := 0
		said := record(t, func(t testing.TB) { replayed = pawltest.ReplayDatabase(t, cfg, c.query) })
		if replayed != c.replayed || (said == "") != (len(c.want) == 0) {
			t.Errorf("%s: %d runs were replayed, want %d; the test says %q", name, replayed, c.replayed, said)
		}
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s: the test says %q, want %q in it", name, said, want)
			}
		}
	}
	cfg.Codec, cfg.Workflows = nil, []pawl.Definition{trip("book")}
	if said := record(t, func(t testing.TB) { pawltest.ReplayDatabase(t, cfg, open) }); !strings.Contains(said,
		"cannot be read as pawltest_test.place") {
		t.Errorf("without the program's codec: %q", said)
	}
	for database, want := range map[string]string{
		"sqlite:" + filepath.Join(t.TempDir(), "none.db"): "no such file", "memory:": "cannot be read from outside",
		"nothing": "has no scheme",
	} {
		said := record(t, func(t testing.TB) { pawltest.ReplayDatabase(t, pawl.Config{Database: database}, open) })
		if !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q in it", database, said, want)
		}
	}
}

// TestReplayServerNotThere checks that an address that is none, and a server that does not answer, fail the test with
// what to do.
func TestReplayServerNotThere(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:7295": "write it as http://127.0.0.1:7295", "http://127.0.0.1:1": "is it running?",
	} {
		said := record(t, func(t testing.TB) { pawltest.ReplayServer(t, pawl.Config{}, address, client.Query{}) })
		if !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q in it", address, said, want)
		}
	}
}

// TestHistoryFile checks that the file of a history is stable JSON with a version, and what is no history of this
// version is refused.
func TestHistoryFile(t *testing.T) {
	pawltest.RunWith(t, pawl.Config{Codec: sealing{}}, func(t *testing.T, e *pawltest.Env) {
		w := trip("book")
		r, err := w.Start(t.Context(), e, "", place{"Rome"})
		if err != nil {
			t.Fatal(err)
		}
		e.Settle()
		text, err := e.History(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		e.Restart()
		if again, err := e.History(t.Context(), r.ID); err != nil || !bytes.Equal(again, text) {
			t.Errorf("written again it is another one, %v:\n%s\n%s", err, text, again)
		}
		var doc struct {
			PawlHistory     int
			Workflow, Phase string
			Entries         []struct {
				Events []struct{ Type string }
				Entry  []byte
			}
		}
		if err := json.Unmarshal(text, &doc); err != nil || doc.PawlHistory != 1 || doc.Workflow != "trip" ||
			doc.Phase != "waiting" {
			t.Errorf("%v\n%s", err, text)
		}
		var types []string
		for _, entry := range doc.Entries {
			for _, ev := range entry.Events {
				types = append(types, ev.Type)
			}
		}
		if !slices.Contains(types, "attempt.started") || strings.Contains(string(text), "Rome") {
			t.Errorf("the events are %q, in\n%s", types, text)
		}
		sealed := pawl.Config{Codec: sealing{}}
		pawltest.ReplayWith(t, sealed, w, text)
		newer := strings.Replace(string(text), `"pawlHistory": 1`, `"pawlHistory": 2`, 1)
		half := strings.Replace(string(text), base64.StdEncoding.EncodeToString(doc.Entries[1].Entry),
			base64.StdEncoding.EncodeToString(doc.Entries[1].Entry[1:]), 1)
		for history, want := range map[string]string{
			newer: "newer version of Pawl", `{"a": 1}`: "is no history", "": "is empty", string(text[:99]): "not JSON",
			half: "entry 2 of the history", "no JSON": "not JSON", `{"pawlHistory": 1}`: "is empty",
		} {
			said := record(t, func(t testing.TB) { pawltest.ReplayWith(t, sealed, w, []byte(history)) })
			if !strings.Contains(said, want) {
				t.Errorf("%.40q: %q, want %q in it", history, said, want)
			}
		}
		if said := record(t, func(t testing.TB) { pawltest.ReplayWith(t, sealed, trip("x"), text) }); !strings.Contains(
			said, "the code has changed") {
			t.Errorf("changed code: %q", said)
		}
	})
}
