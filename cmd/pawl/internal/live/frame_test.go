package live

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/policy"
)

var update = flag.Bool("update", false, "write the golden frames anew")

const document = `
pawl: 1
name: nightly-build
timeout: 5m
services:
  store: {retry: "exponential(4, 3s)", timeout: {startToClose: 4s, scheduleToClose: 40s}}
steps:
  - {name: fetch, exec: {command: [fetch]}}
  - {name: compile, needs: [fetch], exec: {command: [compile]}, timeout: {inactivity: 6s, startToClose: 1m},
     retry: "fixed(2, 2s)"}
  - {name: upload-to-the-object-store, needs: [fetch], service: store, exec: {command: [upload]}}
  - {name: pages, needs: [fetch], forEach: "${{ 1..12 }}", concurrency: 9, exec: {command: [page]},
     retry: "fixed(2, 1s)"}
  - {name: approval, needs: [fetch], wait: {event: approved}, timeout: 1h}
  - {name: nap, needs: [fetch], sleep: 90s}
  - {name: publish, needs: [compile, pages, nap, approval], exec: {command: [publish]}}
hooks: {onFailure: {exec: {command: [sorry]}}}
`

// player plays a run on the machine, in virtual time.
type player struct {
	t     *testing.T
	trail *trail.Trail
	plan  []api.PlannedStep
	state *core.Run
	def   *core.Definition
	now   core.Time
}

var epoch = policy.At(time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC))

func play(t *testing.T) *player {
	doc, err := flow.Parse("build.yaml", []byte(strings.TrimPrefix(document, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	def, err := flow.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	id, err := core.ParseRunID("01a1fb50-f6b1-7624-89a6-58b4e29b356e")
	if err != nil {
		t.Fatal(err)
	}
	p := &player{t: t, trail: trail.New(id, def), state: core.NewRun(id), def: def, now: epoch}
	for _, s := range doc.Steps {
		p.plan = append(p.plan, api.PlannedStep{Name: s.Name, Needs: s.Needs})
	}
	start, err := doc.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	p.do(start)
	return p
}

// run returns the run as it is drawn.
func (p *player) run() *api.Run {
	r := p.trail.Snapshot(p.now)
	r.Plan = p.plan
	return r
}

func (p *player) do(in core.Input) {
	p.t.Helper()
	out, err := core.Advance(p.state, p.def, in, p.now)
	if err != nil {
		p.t.Fatal(err)
	}
	if len(out.Entry.Records) > 0 {
		p.trail.Fold(out.Entry)
	}
	for _, e := range out.Effects {
		if r, ok := e.(core.Revoke); ok {
			p.do(core.TaskStopped{Step: r.Step, Attempt: r.Attempt})
		}
	}
}

func (p *player) pass(d time.Duration) {
	p.now = p.now.Add(d)
	p.do(core.Tick{})
}

func (p *player) step(key string) *core.Step {
	s, ok := p.state.Lookup(key)
	if !ok {
		p.t.Fatalf("no step %s", key)
	}
	return s
}

func (p *player) start(keys ...string) {
	for _, key := range keys {
		s := p.step(key)
		p.do(core.TaskStarted{Step: s.ID, Attempt: s.Attempt, Worker: "here"})
	}
}

func (p *player) end(key string, f *policy.Failure) {
	s := p.step(key)
	p.do(core.TaskEnded{Step: s.ID, Attempt: s.Attempt, Output: []byte(`{}`), Failure: f})
}

// middle returns a run with steps in every state.
func middle(t *testing.T) *player {
	p := play(t)
	p.start("fetch")
	p.pass(300 * time.Millisecond)
	p.end("fetch", nil)
	p.start("compile", "upload-to-the-object-store")
	for _, key := range []string{
		"pages[0]", "pages[1]", "pages[2]", "pages[3]", "pages[4]",
		"pages[5]", "pages[6]", "pages[7]",
	} {
		p.start(key)
	}
	p.pass(2500 * time.Millisecond)
	p.end("upload-to-the-object-store", &policy.Failure{
		Kind: policy.KindError, Type: "exit", Code: 7,
		Message: "exit code 7: connection refused by store.example.com port 443:\x1b[31m the server did not answer",
	})
	p.end("pages[0]", nil)
	p.end("pages[1]", nil)
	p.end("pages[2]", &policy.Failure{Kind: policy.KindError, Type: "exit", Code: 3, Message: "exit code 3"})
	p.pass(700 * time.Millisecond)
	return p
}

func TestFrame(t *testing.T) {
	for _, c := range []struct {
		name          string
		width, height int
		make          func(*testing.T) (*player, View)
	}{
		{"middle-80", 80, 0, func(t *testing.T) (*player, View) { return middle(t), View{} }},
		{"middle-120", 120, 0, func(t *testing.T) (*player, View) { return middle(t), View{} }},
		{"middle-40", 40, 0, func(t *testing.T) (*player, View) { return middle(t), View{} }},
		{"low", 80, 12, func(t *testing.T) (*player, View) { return middle(t), View{} }},
		{"stalled", 80, 14, func(t *testing.T) (*player, View) {
			return middle(t), View{Stalled: "no space left on the storage", Others: Others{Runs: 3}}
		}},
		{"question", 80, 14, func(t *testing.T) (*player, View) {
			return middle(t), View{Question: screen.T("Stop?"), Note: "a note"}
		}},
		{"paused", 80, 0, func(t *testing.T) (*player, View) {
			p := middle(t)
			p.do(core.Operation{Op: core.OpPause, StopClock: true, Step: core.NoStep, Actor: "ada"})
			p.pass(time.Second)
			return p, View{}
		}},
		{"failed", 80, 0, func(t *testing.T) (*player, View) {
			p := middle(t)
			p.pass(3 * time.Second) // the silent compile
			p.pass(2 * time.Second)
			p.start("compile")
			p.pass(6 * time.Second)
			return p, View{}
		}},
		{"cancelled", 80, 0, func(t *testing.T) (*player, View) {
			p := middle(t)
			p.do(core.Operation{Op: core.OpCancel, Step: core.NoStep, Actor: "ada", Reason: "enough"})
			return p, View{}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, v := c.make(t)
			v.Runs = []*api.Run{p.run()}
			lines := Frame(v, api.Time(p.now), c.width, c.height)
			if c.height > 0 && len(lines) > c.height {
				t.Errorf("%d lines on a screen of %d", len(lines), c.height)
			}
			golden(t, c.name, c.width, lines)
		})
	}
}

func TestShow(t *testing.T) {
	p := middle(t)
	p.do(core.Operation{Op: core.OpCancel, Step: core.NoStep, Actor: "ada", Reason: "enough"})
	local := time.Local
	time.Local = time.UTC
	defer func() { time.Local = local }()
	golden(t, "show", 100, Show(p.run(), api.Time(p.now), 100, Showing{}))
}

// TestShowHowFar checks that a run is shown with the value of the last heartbeat of the attempt that runs, and with the
// beginning of a large one.
func TestShowHowFar(t *testing.T) {
	p := middle(t)
	s := p.step("compile")
	shown := func(full bool) string {
		var b strings.Builder
		for _, l := range Show(p.run(), api.Time(p.now), 400, Showing{Full: full}) {
			b.WriteString(l.String() + "\n")
		}
		return b.String()
	}
	for value, want := range map[string]string{
		`{"epoch": 6, "of": 12}`:            `last heartbeat 0s ago: {"epoch": 6, "of": 12}`,
		`"` + strings.Repeat("x", 90) + `"`: `ago: "` + strings.Repeat("x", 79) + "…",
	} {
		p.pass(time.Second) // more than one in a second are not recorded
		p.do(core.Beat{Step: s.ID, Attempt: s.Attempt, Details: []byte(value)})
		if text := shown(false); !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
		if text := shown(true); !strings.Contains(text, "ago: "+value) {
			t.Errorf("no %q in\n%s", value, text)
		}
	}
	p.end("compile", nil)
	if text := shown(true); strings.Contains(text, "heartbeat") {
		t.Errorf("a step that has ended has a heartbeat:\n%s", text)
	}
}

// golden compares lines with a file, each within the width and free of control characters.
func golden(t *testing.T, name string, width int, lines []screen.Line) {
	t.Helper()
	var b strings.Builder
	for _, l := range lines {
		if w := screen.Width(l.String()); w > width {
			t.Errorf("%d cells on a screen of %d: %s", w, width, l)
		}
		b.WriteString(l.String() + "\n")
	}
	if strings.ContainsRune(b.String(), 0x1b) {
		t.Error("a control character of a process's output reaches the screen")
	}
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the frame is not as in %s (-update writes it anew):\n%s\nwant:\n%s", path, b.String(), want)
	}
}

// BenchmarkFrame draws a forEach of 100,000 items: the live view looks at it ten times a second.
func BenchmarkFrame(b *testing.B) {
	group := &core.StepSpec{Name: "each", Def: -1, Kind: core.KindGroup}
	item := &core.StepSpec{Name: "each", Def: -1, Kind: core.KindTask, Type: "exec"}
	t := trail.New(core.RunID{1}, nil)
	t.Fold(core.Entry{At: epoch, Records: []core.Record{
		core.RunCreated{},
		core.StepBegan{Spec: group, Item: -1, Group: core.NoStep},
	}})
	for i := range 100_000 {
		t.Fold(core.Entry{At: epoch, Records: []core.Record{
			core.StepBegan{Spec: item, Item: int32(i)},
			core.StepEnded{Step: core.StepID(i + 1), Phase: core.StepSucceeded},
		}})
	}
	for b.Loop() {
		t.Fold(core.Entry{At: epoch, Records: []core.Record{core.AttemptBeat{Step: 100}}})
		r := t.Snapshot(epoch)
		r.Plan = []api.PlannedStep{{Name: "each"}}
		Frame(View{Runs: []*api.Run{r}}, api.Time(epoch.Add(time.Minute)), 80, 24)
	}
}
