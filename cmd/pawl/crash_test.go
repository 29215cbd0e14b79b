package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/nightly"
)

var (
	crashRounds = flag.Int("crash.rounds", 0, "rounds of TestCrash; 0: 3, and 1 under -short")
	crashSeed   = flag.Uint64("crash.seed", 0, "seed of TestCrash; 0: a new one")
)

// crashFlow does a job in many small steps, with failures, backoffs, a hang, a forEach and a sleep. Every attempt
// leaves a line outside of Pawl before it does anything.
const crashFlow = `pawl: 1
name: crash
timeout: 10m
defaults: {timeout: {startToClose: 30s, scheduleToClose: 5m}}
steps:
  - name: begin
    exec: {shell: 'echo "$PAWL_STEP" >> effects; sleep 0.05'}
  - name: flaky
    needs: [begin]
    exec: {shell: 'echo "$PAWL_STEP" >> effects; n=$(grep -c "^flaky$" effects); [ "$n" -ge 3 ] || exit 1'}
    retry: fixed(30, 80ms)
  - name: hang
    needs: [begin]
    exec: {shell: 'echo "$PAWL_STEP" >> effects; n=$(grep -c "^hang$" effects); [ "$n" -ge 2 ] || sleep 60',
           grace: 100ms}
    timeout: {inactivity: 250ms}
    retry: fixed(30, 20ms)
  - name: each
    needs: [begin]
    forEach: [1, 2, 3, 4, 5, 6]
    concurrency: 2
    exec: {shell: 'echo "$PAWL_STEP" >> effects; sleep 0.04'}
  - name: nap
    needs: [each]
    sleep: 200ms
  - name: middle
    needs: [nap]
    exec: {shell: 'echo "$PAWL_STEP" >> effects; sleep 0.1'}
    timeout: {deadline: 4m}
  - name: end
    needs: [middle, hang, flaky]
    exec: {shell: 'echo "$PAWL_STEP" >> effects'}
output: {done: true}
`

// crashForms puts the policies of crashFlow into the words of Temporal and Zart.
var crashForms = strings.NewReplacer(
	"timeout: 10m\ndefaults: {timeout: {startToClose: 30s, scheduleToClose: 5m}}",
	"temporal: {workflowRunTimeout: 10m}\ndefaults: {temporal: {startToCloseTimeout: 30s, "+
		"scheduleToCloseTimeout: 5m, retryPolicy: {maximumAttempts: 1}}}",
	"retry: fixed(30, 80ms)", "temporal: {retryPolicy: {initialInterval: 80ms, backoffCoefficient: 1, "+
		"maximumAttempts: 30}}",
	"timeout: {inactivity: 250ms}\n    retry: fixed(30, 20ms)",
	"temporal: {startToCloseTimeout: 1s, retryPolicy: {initialInterval: 20ms, maximumAttempts: 30}}",
	"timeout: {deadline: 4m}", `zart: {timeout: 4m, retry: "fixed(3, 1s)"}`,
)

// crashSpread gives crashFlow child runs in several partitions of the database, in place of its forEach of processes.
// Their lines outside of Pawl name the parent's step.
var crashSpread = strings.NewReplacer(
	`    exec: {shell: 'echo "$PAWL_STEP" >> effects; sleep 0.04'}`,
	`    flow: {name: child, spread: true, input: {step: "each[${{ index }}]"}}`,
)

const crashChild = `pawl: 1
name: child
input: {type: object, required: [step], properties: {step: {type: string}}}
steps:
  - name: first
    sleep: 30ms
  - name: second
    needs: [first]
    exec: {shell: 'echo "$STEP" >> effects; sleep 0.04', env: {STEP: "${{ input.step }}"}}
`

// crashChildren is how many child runs crashSpread makes.
const crashChildren = 6

// crashes is one round: a run that is killed with -9 again and again until it is left alone.
type crashes struct {
	crashJob
	t      *testing.T
	dir    string
	random *rand.Rand
	sent   bool // the event that the job waits for

	told      map[toldEvent]string // every event that was printed
	finished  map[string]int       // steps reported as finished: how often they had run by then
	deadlines map[string]string    // stored instants, by what they belong to
}

// toldEvent names an event: child runs are told of as well.
type toldEvent struct {
	run string
	seq int
}

// crashJob is what a round runs.
type crashJob struct {
	files      map[string]string // text by name
	folder     string            // the folder in which pawl runs; empty: that of the files
	args       []string          // arguments of pawl run
	partitions bool              // the database has several partitions, and the child runs are in all of them
	children   int               // number of runs beside the first
	ends       []string          // possible ends of the first run
	effects    bool              // each attempt leaves a line in the file effects
	waits      string            // the step that waits for an event of its name
}

// crashJobs returns jobs that are made to be killed. Those of exampleJobs are flows that people read.
func crashJobs(t *testing.T) []crashJob {
	forms := crashForms.Replace(crashFlow)
	if strings.Contains(forms, "retry: fixed") || strings.Contains(forms, "timeout: {start") {
		t.Fatal("crashForms leaves something of crashFlow in native words")
	}
	spread := crashSpread.Replace(crashFlow)
	if !strings.Contains(spread, "spread: true") {
		t.Fatal("crashSpread finds nothing to replace in crashFlow")
	}
	job := func(text string) crashJob {
		return crashJob{
			files: map[string]string{"flow.yaml": text}, args: []string{"flow.yaml"}, ends: []string{"run.succeeded"},
			effects: true,
		}
	}
	several := job(spread)
	several.files["child.yaml"], several.partitions, several.children = crashChild, true, crashChildren
	return []crashJob{job(crashFlow), job(forms), several}
}

// TestCrash kills the real binary with -9 in the middle of a run, starts it again, and holds what comes of it against
// what was told before: what was printed is in the history, no finished step runs again, no stored deadline moves, the
// run ends. Every third round has a database of several partitions, every fourth one is a flow of the examples.
func TestCrash(t *testing.T) {
	seed := *crashSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (again: -crash.seed=%d)", seed, seed)
	rounds, kills := cmp.Or(*crashRounds, nightly.Few(1, 3)), 0
	made, examples := crashJobs(t), exampleJobs(t)
	for round := range rounds {
		c := &crashes{
			t: t, dir: t.TempDir(), random: rand.New(rand.NewPCG(seed, uint64(round))),
			told: map[toldEvent]string{}, finished: map[string]int{}, deadlines: map[string]string{},
		}
		if n := round % (len(made) + 1); n < len(made) {
			c.crashJob = made[n]
		} else {
			c.crashJob = examples[c.random.IntN(len(examples))]()
		}
		for name, text := range c.files {
			write(t, c.dir, name, text)
		}
		kills += c.round()
		if t.Failed() {
			t.Fatalf("round %d of seed %d failed: %v", round, seed, c.args)
		}
	}
	t.Logf("%d rounds, %d kills", rounds, kills)
}

func (c *crashes) round() (kills int) {
	for most := 1 + c.random.IntN(4); kills < most; kills++ {
		if ended := c.work(true); ended {
			break
		}
		c.look()
	}
	if !c.work(false) {
		c.t.Fatal("the run was left alone and did not end")
	}
	c.look()
	c.compare()
	return kills
}

// command runs pawl with the round's database.
func (c *crashes) command(args ...string) *exec.Cmd {
	cmd := command(c.t, c.dir, args...)
	if c.folder != "" {
		cmd.Dir = c.folder
	}
	if c.partitions {
		cmd.Env = append(cmd.Env, "PAWL_DATABASE=sqlite:crash.db?partitions=4")
	}
	return cmd
}

// next starts the run, or goes on with it. A start that was killed before it was durable is made again.
func (c *crashes) next() []string {
	out, err := c.command("run", "list", "--children", "-o", "json").Output()
	if err != nil || strings.TrimSpace(string(out)) == "[]" {
		return append([]string{"run", "--id", "crash", "--json"}, c.args...)
	}
	return []string{"resume", "--json"}
}

// send sends the event that the run waits for, unless it was sent. There may be no run to send it to.
func (c *crashes) send() {
	if c.waits != "" && !c.sent {
		c.sent = c.command("event", "send", "crash", c.waits, "--data", `{"by":"ada"}`).Run() == nil
	}
}

// work lets a process carry the run; with kill, it is killed after a random time or a random number of events. It
// reports whether the run has ended.
func (c *crashes) work(kill bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := c.command(c.next()...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	events := -1
	if kill && c.random.IntN(2) == 0 {
		events = c.random.IntN(40)
	} else if kill {
		timer := time.AfterFunc(time.Duration(c.random.IntN(700))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	c.read(stdout, events, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return true
	case errors.As(err, &exit) && exit.ExitCode() == -1 && kill:
		return false
	default:
		c.t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.String())
		return false
	}
}

// event is what the test reads of an event.
type crashEvent struct {
	Run  string `json:"run"`
	Seq  int    `json:"seq"`
	Type string `json:"type"`
	Step string `json:"step"`
}

// read takes what the process tells until it ends; after a number of events it calls enough.
func (c *crashes) read(out io.Reader, events int, enough func()) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for n := 0; lines.Scan(); n++ {
		if n == events {
			enough()
		}
		var ev crashEvent
		if json.Unmarshal(lines.Bytes(), &ev) != nil {
			continue // the line that the kill cut off
		}
		of := toldEvent{ev.Run, ev.Seq}
		if before, known := c.told[of]; known && before != lines.Text() {
			c.t.Errorf("event %v was told as\n%s\nand is now\n%s", of, before, lines.Text())
		}
		c.told[of] = lines.Text()
		if ev.Step == c.waits {
			c.send()
		}
		if _, known := c.finished[ev.Step]; !known && ev.Type == "step.succeeded" {
			c.finished[ev.Step] = c.executed()[ev.Step]
		}
	}
}

// executed counts how often each step has run, as far as they leave a line.
func (c *crashes) executed() map[string]int {
	text, err := os.ReadFile(filepath.Join(c.dir, "effects"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.FieldsSeq(string(text)) {
		count[line]++
	}
	return count
}

// look reads the stored deadlines and compares them with those read before.
func (c *crashes) look() {
	out, err := c.command("run", "show", "crash", "-o", "json").Output()
	if err != nil {
		return // killed before the run was durable
	}
	var run struct {
		RunDeadline string `json:"runDeadline"`
		Steps       []struct {
			Step            string `json:"step"`
			ScheduleToClose string `json:"scheduleToCloseDeadline"`
			Deadline        string `json:"deadline"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(out, &run); err != nil {
		c.t.Fatal(err)
	}
	now := map[string]string{"run": run.RunDeadline}
	for _, s := range run.Steps {
		now[s.Step+" scheduleToClose"], now[s.Step+" deadline"] = s.ScheduleToClose, s.Deadline
	}
	for of, at := range c.deadlines {
		if at != "" && now[of] != at {
			c.t.Errorf("the deadline %s moved from %s to %q", of, at, now[of])
		}
	}
	maps.Copy(c.deadlines, now)
}

// compare holds the whole history against what was told on the way.
func (c *crashes) compare() {
	history, ended := map[toldEvent]string{}, map[string]string{}
	succeeded := map[[2]string]bool{} // run and step
	for _, run := range c.runs() {
		out, err := c.command("run", "events", run, "--json").Output()
		if err != nil {
			c.t.Fatal(err)
		}
		for line := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
			var ev crashEvent
			if err := json.Unmarshal([]byte(line), &ev); err != nil {
				c.t.Fatal(err)
			}
			history[toldEvent{ev.Run, ev.Seq}], ended[ev.Run] = line, ev.Type
			step := [2]string{ev.Run, ev.Step}
			if succeeded[step] && ev.Type == "attempt.started" {
				c.t.Errorf("step %s of the run %s runs again, having succeeded:\n%s", ev.Step, ev.Run, line)
			}
			succeeded[step] = succeeded[step] || ev.Type == "step.succeeded"
		}
	}
	for run, last := range ended {
		if !slices.Contains(c.ends, last) {
			c.t.Errorf("the last event of the run %s is %s", run, last)
		}
	}
	for of, line := range c.told {
		if history[of] != line {
			c.t.Errorf("event %v was told as\n%s\nand the history has\n%s", of, line, history[of])
		}
	}
	now := c.executed()
	for step, before := range c.finished {
		if now[step] > before && before > 0 {
			c.t.Errorf("step %s was reported as finished after %d executions, and was executed %d times", step, before,
				now[step])
		}
	}
	if c.effects && now["end"] == 0 {
		c.t.Error("the last step never ran")
	}
	out, err := c.command("doctor").CombinedOutput()
	if err != nil {
		c.t.Errorf("doctor: %v\n%s", err, out)
	}
	if n := strings.Count(string(out), ": batches "); c.partitions && n != 4 {
		c.t.Errorf("%d partitions have batches, want 4:\n%s", n, out)
	}
}

// runs lists the runs of the database. Each child run was made once, whatever was lost on its way to another partition.
func (c *crashes) runs() (ids []string) {
	out, err := c.command("run", "list", "--children", "-o", "json").Output()
	if err != nil {
		c.t.Fatal(err)
	}
	var list []struct {
		Run string `json:"run"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		c.t.Fatal(err)
	}
	for _, r := range list {
		ids = append(ids, r.Run)
	}
	if want := 1 + c.children; len(ids) != want {
		c.t.Errorf("there are %d runs, want %d:\n%s", len(ids), want, out)
	}
	return ids
}
