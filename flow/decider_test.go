package flow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// TestRuns drives flows through the machine: each transcript holds a flow, a line of ---, and what its workers and the
// world do. `go test ./flow -rewrite` writes them anew.
//
//	NAME: ok [JSON]                  an attempt of that step succeeds; further lines are for further attempts
//	NAME: error|failed [CODE] [TEXT] it fails
//	NAME: hang                       it ends with its limit
//	input JSON | event NAME JSON at DURATION | fail STEP at DURATION (an operator) | after failure (of another run)
//
// Steps without a line succeed; a noop gives its output.
func TestRuns(t *testing.T) {
	datadriven.Walk(t, "testdata/runs", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			src, script, _ := strings.Cut(d.Input, "\n---\n")
			doc, err := Parse("flow.yaml", []byte(src))
			if err != nil {
				return err.Error() + "\n"
			}
			plain := newWorld(t, doc, script)
			plain.run()
			// The same with a machine that forgets everything after each input must do the same.
			again := newWorld(t, doc, script)
			again.reload = true
			again.run()
			if plain.log.String() != again.log.String() {
				t.Errorf("%s: a reloaded run goes another way:\n%s", d.Pos, again.log.String())
			}
			return plain.log.String()
		})
	})
}

// world is everything around one run.
type world struct {
	t            testing.TB
	def          *core.Definition
	doc          *Document
	run_         *core.Run
	entries      []core.Entry
	now          core.Time
	log          strings.Builder
	script       map[string][]string
	tried        map[string]int
	events       []event
	input        string
	reload       bool
	afterFailure bool
	quiet        bool
	queue        []core.Effect
	steps        int
}

type event struct {
	at      core.Time
	name    string
	payload string
	fails   bool // an operator fails the step of that name
}

var start = policy.At(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))

func newWorld(t testing.TB, doc *Document, script string) *world {
	t.Helper()
	def, err := Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, def: def, doc: doc, now: start, script: map[string][]string{}, tried: map[string]int{}}
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if word, rest, _ := strings.Cut(line, " "); word == "input" {
			w.input = rest
		} else if line == "after failure" {
			w.afterFailure = true
		} else if word == "event" {
			name, rest, _ := strings.Cut(rest, " ")
			payload, at, _ := strings.Cut(rest, " at ")
			d, err := duration.Parse(at)
			if err != nil {
				t.Fatal(err)
			}
			w.events = append(w.events, event{at: start.Add(d), name: name, payload: payload})
		} else if word == "fail" {
			name, at, _ := strings.Cut(rest, " at ")
			d, err := duration.Parse(at)
			if err != nil {
				t.Fatal(err)
			}
			w.events = append(w.events, event{at: start.Add(d), name: name, fails: true})
		} else if name, what, ok := strings.Cut(line, ": "); ok {
			w.script[name] = append(w.script[name], what)
		}
	}
	return w
}

func (w *world) say(format string, args ...any) {
	if !w.quiet {
		fmt.Fprintf(&w.log, "%-6s ", duration.Format(w.now.Sub(start)))
		fmt.Fprintf(&w.log, format+"\n", args...)
	}
}

func (w *world) run() {
	input, err := w.doc.CheckInput([]byte(w.input))
	if err != nil {
		fmt.Fprintln(&w.log, err)
		return
	}
	w.run_ = core.NewRun(core.RunID{1})
	s, err := w.doc.Start(input)
	if err != nil {
		w.t.Fatal(err)
	}
	s.Chain.AfterFailure = w.afterFailure
	w.take(s)
	for !w.run_.Phase.Closed() {
		if len(w.queue) > 0 {
			e := w.queue[0]
			w.queue = w.queue[1:]
			w.carryOut(e)
			continue
		}
		wake := w.run_.Wake()
		if len(w.events) > 0 && (wake == 0 || w.events[0].at < wake) {
			e := w.events[0]
			w.events = w.events[1:]
			w.now = max(w.now, e.at)
			if e.fails {
				w.say("an operator fails %s", e.name)
				at := slices.IndexFunc(w.run_.Steps, func(s core.Step) bool { return s.Key() == e.name })
				w.take(core.Operation{Op: core.OpFail, Step: core.StepID(at)})
				continue
			}
			w.say("event %s", e.name)
			w.take(core.SignalReceived{Name: e.name, Payload: []byte(e.payload)})
			continue
		}
		if wake == 0 {
			w.say("nothing will ever happen")
			return
		}
		w.now = max(w.now, wake)
		w.take(core.Tick{})
	}
	again := ""
	if w.run_.Next != (core.RunID{}) {
		again = "; another run follows"
	}
	w.say("run %s%s%s%s", w.run_.Phase, text(w.run_.Output), failureText(w.run_.Failure), again)
}

func text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return " " + string(b)
}

func failureText(f *policy.Failure) string {
	if f == nil {
		return ""
	}
	out := fmt.Sprintf(": %s", f.Kind)
	if f.Type != "" {
		out += "/" + f.Type
	}
	if f.Code != 0 {
		out += fmt.Sprintf(" %d", f.Code)
	}
	return out + ": " + f.Message
}

func (w *world) take(in core.Input) {
	out, err := core.Advance(w.run_, w.def, in, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	w.steps += len(out.Entry.Records)
	if !w.quiet {
		w.entries = append(w.entries, out.Entry)
	}
	for _, rec := range out.Entry.Records {
		w.record(rec)
	}
	w.queue = append(w.queue, out.Effects...)
	if w.reload {
		w.run_ = core.Restore(w.run_.ID, w.def, w.entries)
	}
}

func (w *world) record(rec core.Record) {
	switch rec := rec.(type) {
	case core.StepBegan:
		if rec.Spec.Kind != core.KindTask {
			w.say("%s begins (%s%s)", key(rec.Spec.Name, rec.Item), rec.Spec.Kind, text([]byte(rec.Spec.Event)))
		}
	case core.StepOmitted:
		w.say("%s skipped: %s", key(rec.Spec.Name, rec.Item), rec.Reason)
	case core.StepEnded:
		s := &w.run_.Steps[rec.Step]
		w.say("%s %s%s%s", s.Key(), rec.Phase, text(rec.Output), failureText(rec.Failure))
	case core.RunClosing:
		w.say("closing as %s", rec.Phase)
	case core.AttemptEnded:
		if rec.Retry {
			w.say("%s attempt failed%s; again at %s", w.run_.Steps[rec.Step].Key(), failureText(rec.Failure),
				duration.Format(rec.NextAt.Sub(start)))
		} else if rec.Note != "" {
			w.say("note: %s", rec.Note)
		}
	}
}

func key(name string, item int32) string {
	if item < 0 {
		return name
	}
	return fmt.Sprintf("%s[%d]", name, item)
}

func (w *world) carryOut(e core.Effect) {
	switch e := e.(type) {
	case core.Offer:
		if s := &w.run_.Steps[e.Step]; s.ShareKey() != "" {
			w.say("%s has the key %q", s.Key(), s.ShareKey())
		}
		w.take(core.TaskStarted{Step: e.Step, Attempt: e.Attempt, Worker: "w"})
	case core.Dispatch:
		w.work(e.Task)
	case core.StartChild:
		s := w.run_.Steps[e.Step]
		w.say("%s starts %s", s.Key(), e.Payload)
		w.take(core.ChildEnded{
			Step: e.Step, Attempt: e.Attempt, Child: e.Child, Phase: core.RunSucceeded,
			Output: []byte(`{"child":true}`),
		})
	case core.Revoke:
		w.take(core.TaskStopped{Step: e.Step, Attempt: e.Attempt})
	}
}

// work plays the worker.
func (w *world) work(task core.Task) {
	w.say("%s %s %s", task.StepName, task.Type, task.Payload)
	lines := w.script[task.StepName]
	n := w.tried[task.StepName]
	w.tried[task.StepName]++
	if n >= len(lines) {
		n = len(lines) - 1
	}
	end := core.TaskEnded{Step: task.Token.Step, Attempt: task.Token.Attempt}
	if n < 0 {
		var noop struct{ Output json.RawMessage }
		if task.Type == "noop" && json.Unmarshal(task.Payload, &noop) == nil {
			end.Output = noop.Output
		}
		w.take(end)
		return
	}
	word, rest, _ := strings.Cut(lines[n], " ")
	switch word {
	case "hang":
		return
	case "ok":
		end.Output = []byte(rest)
	default:
		f := &policy.Failure{}
		if err := f.Kind.UnmarshalText([]byte(word)); err != nil {
			w.t.Fatal(err)
		}
		if k, err := fmt.Sscanf(rest, "%d", &f.Code); k == 1 && err == nil {
			_, rest, _ = strings.Cut(rest, " ")
		}
		f.Message = rest
		end.Failure = f
	}
	w.take(end)
}

// TestRetryOfARun checks that everything that followed from a failure is decided anew when an operator retries.
func TestRetryOfARun(t *testing.T) {
	doc := mustParse(t, `
pawl: 1
name: x
steps:
  - {name: a, exec: "true"}
  - {name: b, needs: [a], forEach: [1, 2, 3], exec: "echo ${{ q(item) }}"}
  - {name: c, needs: [b], exec: "true"}
  - {name: d, needs: [c], exec: "true"}
hooks: {onFailure: {noop: }}
`)
	w := newWorld(t, doc, "b[1]: failed no\nb[1]: ok 2")
	w.run()
	if w.run_.Phase != core.RunFailed {
		t.Fatal(w.log.String())
	}
	w.take(core.Operation{Op: core.OpRetryRun, Step: core.NoStep})
	for len(w.queue) > 0 {
		e := w.queue[0]
		w.queue = w.queue[1:]
		w.carryOut(e)
	}
	if w.run_.Phase != core.RunSucceeded {
		t.Fatalf("%s\n%s", w.run_.Phase, w.log.String())
	}
	if w.tried["b[0]"] != 1 || w.tried["b[1]"] != 2 || w.tried["a"] != 1 || w.tried["d"] != 1 {
		t.Fatalf("attempts %v", w.tried)
	}
}

// TestKeptResults checks that a rerun repeats exactly the results that were not kept.
func TestKeptResults(t *testing.T) {
	doc := mustParse(t, `
pawl: 1
name: x
steps:
  - {name: a, exec: "true"}
  - {name: b, needs: [a], forEach: [1, 2, 3], exec: "echo ${{ q(steps.a.output) }} ${{ q(item) }}"}
  - {name: c, needs: [b], noop: {output: "${{ steps.b.outputs }}"}}
output: "${{ steps.c.output }}"
`)
	w := newWorld(t, doc, "b[1]: ok 9")
	w.run_ = core.NewRun(core.RunID{2})
	item := doc.built.plans[1].item
	w.take(core.Start{Workflow: "x", Keep: []core.Kept{
		{Def: 0, Name: "a", Item: -1, Phase: core.StepSucceeded, Output: []byte(`"kept"`)},
		{Def: item, Name: "b", Item: 0, Phase: core.StepSucceeded, Output: []byte(`7`)},
		{Def: item, Name: "b", Item: 2, Phase: core.StepSucceeded, Output: []byte(`8`)},
	}})
	for len(w.queue) > 0 {
		e := w.queue[0]
		w.queue = w.queue[1:]
		w.carryOut(e)
	}
	if string(w.run_.Output) != "[7,9,8]" || w.tried["a"] != 0 || w.tried["b[0]"] != 0 {
		t.Fatalf("%s %s %v\n%s", w.run_.Phase, w.run_.Output, w.tried, w.log.String())
	}
}

func bigFlow(n int) string {
	var b strings.Builder
	b.WriteString("pawl: 1\nname: big\nsteps:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - name: s%d\n", i)
		if i > 0 {
			fmt.Fprintf(&b, "    needs: [s%d]\n", i-1)
		}
		b.WriteString("    noop:\n")
	}
	return b.String()
}

func BenchmarkChain(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		doc := mustParse(b, bigFlow(n))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				w := newWorld(b, doc, "")
				w.quiet = true
				w.run()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/step")
		})
	}
}

func BenchmarkForEach(b *testing.B) {
	doc := mustParse(b,
		"pawl: 1\nname: big\nsteps:\n  - {name: all, forEach: '${{ input.items }}', noop: {output: '${{ item }}'}}\n")
	for _, n := range []int{10000, 100000} {
		items, _ := json.Marshal(map[string]any{"items": slices.Repeat([]string{"page"}, n)})
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				w := newWorld(b, doc, "input "+string(items))
				w.quiet = true
				w.run()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/item")
		})
	}
}

func BenchmarkParse(b *testing.B) {
	src := []byte(bigFlow(10000))
	for b.Loop() {
		if _, err := Parse("big.yaml", src); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTask(b *testing.B) {
	doc := mustParse(b, `{"pawl": 1, "name": "x", "steps": [
		{"name": "constant", "exec": {"command": ["true"]}},
		{"name": "expression", "exec": {"command": ["echo", "${{ input.a.b }}", "n ${{ attempt }}"]}}]}`)
	def, _ := Compile(doc)
	r := core.NewRun(core.RunID{3})
	input := []byte(`{"a": {"b": "c"}}`)
	if _, err := core.Advance(r, def, core.Start{Workflow: "x", Input: input}, start); err != nil {
		b.Fatal(err)
	}
	d := def.NewDecider(r)
	for i, name := range []string{"constant", "expression"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, f := d.Task(r, &r.Steps[i], start); f != nil {
					b.Fatal(f)
				}
			}
		})
	}
}

// TestRerun checks that a rerun keeps what it is not asked to repeat.
func TestRerun(t *testing.T) {
	doc := mustParse(t, `
pawl: 1
name: x
steps:
  - {name: a, exec: a}
  - {name: b, needs: [a], forEach: [1, 2, 3], exec: "b ${{ q(item) }}"}
  - {name: c, needs: [b], exec: c}
  - {name: d, needs: [a], exec: d}
`)
	first := newWorld(t, doc, "")
	first.run()
	for _, c := range []struct {
		steps []string
		from  bool
		want  string
	}{
		{[]string{"a"}, false, "a"},
		{[]string{"b"}, false, "b[0] b[1] b[2]"},
		{[]string{"b"}, true, "b[0] b[1] b[2] c"},
		{[]string{"b[1]"}, false, "b[1]"},
		{[]string{"b[1]"}, true, "b[1] c"},
		{[]string{"a"}, true, "a b[0] b[1] b[2] c d"},
	} {
		kept, err := Rerun(doc, first.run_, c.steps, c.from)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, doc, "")
		w.run_ = core.NewRun(core.RunID{9})
		w.take(core.Start{Workflow: "x", Keep: kept})
		for len(w.queue) > 0 {
			e := w.queue[0]
			w.queue = w.queue[1:]
			w.carryOut(e)
		}
		var ran []string
		for name := range w.tried {
			ran = append(ran, name)
		}
		slices.Sort(ran)
		if got := strings.Join(ran, " "); got != c.want || w.run_.Phase != core.RunSucceeded {
			t.Errorf("rerun %v from=%v ran %q, want %q", c.steps, c.from, got, c.want)
		}
	}
	for _, name := range []string{"nope", "a[0]", "b[3]", "b[x"} {
		if _, err := Rerun(doc, first.run_, []string{name}, false); err == nil {
			t.Errorf("%s does not exist, and is no error", name)
		}
	}
}

// TestDefinitionIsShared checks that runs of one definition may be interpreted side by side.
func TestDefinitionIsShared(t *testing.T) {
	doc := mustParse(t, goodFlows(t)[0])
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			newWorld(t, doc, "a: error 1 x").run()
		})
	}
}
