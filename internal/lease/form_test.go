package lease

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/golden"
)

// TestForms checks that everything that is told and stored is read as it was written, and written in its newest
// version.
func TestForms(t *testing.T) {
	var downs []down
	for kind := range downNames {
		d := golden.Full[down]()
		d.Kind = downKind(kind)
		if d.Kind != downRevoke {
			d.Token = core.Token{}
		}
		d.Task.Top = core.RunID{} // whose environment processes have: a program that serves bodies starts none
		downs = append(downs, d)
	}
	text, n, err := encodeDowns(downs)
	if err != nil || n != len(downs) {
		t.Fatal(n, err)
	}
	if got, err := decodeDowns(golden.Same(t, "../2/news.json", text)); err != nil || !reflect.DeepEqual(got, downs) {
		t.Errorf("%v: read\n%+v\nwritten\n%+v", err, got, downs)
	}

	var ups []up
	for kind := range upNames {
		u := golden.Full[up]()
		u.Kind = upKind(kind)
		seen := golden.Full[core.Seen]()
		u.Inputs = []core.Input{
			core.Commands{Seen: seen, Waits: true, Closed: 7, Stopping: true, Commands: []core.Command{
				golden.Full[core.Schedule](), golden.Full[core.Mark](), golden.Full[core.CancelStep](),
				golden.Full[core.Publish](), golden.Full[core.AcceptUpdate](), golden.Full[core.AnswerUpdate](),
				golden.Full[core.Close](),
			}},
			golden.Full[core.TaskEnded](), golden.Full[core.TaskStopped](), golden.Full[core.Beat](),
		}
		ups = append(ups, u)
	}
	if text, n, err = encodeUps(ups); err != nil || n != len(ups) {
		t.Fatal(n, err)
	}
	if got, err := decodeUps(golden.Same(t, "../2/decisions.json", text)); err != nil || !reflect.DeepEqual(got, ups) {
		t.Errorf("%v: read\n%+v\nwritten\n%+v", err, got, ups)
	}

	readOlder(t, downs, ups)

	w := golden.Full[Served]()
	if text, err = encodeWorkflows([]Served{w}); err != nil {
		t.Fatal(err)
	}
	all, err := decodeWorkflows(golden.Same(t, "../2/workflows.json", text))
	if err != nil || !reflect.DeepEqual(all, []Served{w}) {
		t.Errorf("%v: read\n%+v\nwritten\n%+v", err, all, w)
	}
	if text, err = encodeStored(&w); err != nil {
		t.Fatal(err)
	}
	if got, err := decodeStored(golden.Same(t, "stored.json", text)); err != nil || !reflect.DeepEqual(got, w) {
		t.Errorf("%v: read\n%+v\nwritten\n%+v", err, got, w)
	}
}

// readOlder checks that what version 0.1.0 said is read still. It told nothing of the order of ends.
func readOlder(t *testing.T, downs []down, ups []up) {
	t.Helper()
	for i := range downs {
		n := downs[i].News
		n.Head.Ends, n.Head.Stop.Ends = 0, 0
		for i := range n.Steps {
			n.Steps[i].Rank = 0
		}
	}
	for i := range ups {
		c := ups[i].Inputs[0].(core.Commands)
		c.Seen = core.Seen{}
		ups[i].Inputs[0] = c
	}
	if got, err := decodeDowns(golden.Read(t, "news.json")); err != nil || !reflect.DeepEqual(got, downs) {
		t.Errorf("%v: read\n%+v\nwanted\n%+v", err, got, downs)
	}
	if got, err := decodeUps(golden.Read(t, "decisions.json")); err != nil || !reflect.DeepEqual(got, ups) {
		t.Errorf("%v: read\n%+v\nwanted\n%+v", err, got, ups)
	}
	if _, err := decodeWorkflows(golden.Read(t, "workflows.json")); err != nil {
		t.Error(err)
	}
}

// TestNotUnderstood checks that what is of another version, or says what this version does not know, is refused with
// the reason.
func TestNotUnderstood(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, "EOF"},
		{`{}`, "it is of version 0, this program knows versions up to 2"},
		{`{"version":3,"news":[{"kind":"begin","more":1}]}`, "it is of version 3, this program knows versions up to 2"},
		{`{"version":1,"news":[{"kind":"end","more":1}]}`, `unknown object member name "more"`},
		{`{"version":1,"news":[{"kind":"go"}]}`, `"go" is no kind of news`},
		{`{"version":1,"news":[{"kind":"begin"}]}`, "a begin says nothing"},
		{`{"version":1,"news":[{"kind":"end","run":"x"}]}`, `"x" is not a run id`},
		{`{"version":1,"news":[{"kind":"begin","news":{"run":"","steps":[{"id":1,"phase":"odd"}]}}]}`, "odd"},
	} {
		_, err := decodeDowns([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "the same version") {
			t.Errorf("%s: %v; want %s", c.text, err, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{`{"kind":"decide","inputs":[{}]}`, "an input says nothing"},
		{`{"kind":"decide","inputs":[{"commands":{"commands":[{}]}}]}`, "a command says nothing"},
		{`{"kind":"refuse"}`, "a refuse says nothing"},
	} {
		_, err := decodeUps([]byte(`{"version":1,"decisions":[` + c.text + `]}`))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.text, err, c.want)
		}
	}
	hook := `{"version":1,"workflows":[{"name":"w","kind":"go","hooks":{"a":null}}]}`
	_, err := decodeWorkflows([]byte(hook))
	if err == nil || !strings.Contains(err.Error(), `hook "a" is not described`) {
		t.Error(err)
	}
	wrong := `{"version":1,"workflow":{"name":"w","kind":"go","retry":{"maxAttempts":1,"jitterKind":"odd"}}}`
	_, err = decodeStored([]byte(wrong))
	if err == nil || !strings.Contains(err.Error(), `"odd" is no kind of jitter`) {
		t.Error(err)
	}
}
