package main

import (
	"bufio"
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
	"strings"
	"testing"
	"time"
)

var (
	crashRounds = flag.Int("crash.rounds", 2, "rounds of TestCrash")
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

// crashes is one round: a run that is killed with -9 again and again until it is left alone.
type crashes struct {
	t      *testing.T
	dir    string
	random *rand.Rand

	told      map[int]string    // every event that was printed, by number
	finished  map[string]int    // steps reported as finished: how often they had run by then
	deadlines map[string]string // stored instants, by what they belong to
}

// TestCrash kills the real binary with -9 in the middle of a run, starts it again, and holds what comes of it against
// what was told before: what was printed is in the history, no finished step runs again, no stored deadline moves, the
// run ends.
func TestCrash(t *testing.T) {
	seed := *crashSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (again: -crash.seed=%d)", seed, seed)
	kills := 0
	for round := range *crashRounds {
		c := &crashes{
			t: t, dir: t.TempDir(), random: rand.New(rand.NewPCG(seed, uint64(round))),
			told: map[int]string{}, finished: map[string]int{}, deadlines: map[string]string{},
		}
		text := crashFlow
		if round%2 == 1 {
			if text = crashForms.Replace(text); strings.Contains(text, "retry: fixed") ||
				strings.Contains(text, "timeout: {start") {
				t.Fatal("crashForms leaves something of crashFlow in native words")
			}
		}
		write(t, c.dir, "flow.yaml", text)
		kills += c.round()
		if t.Failed() {
			t.Fatalf("round %d of seed %d failed", round, seed)
		}
	}
	t.Logf("%d rounds, %d kills", *crashRounds, kills)
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

// args starts the run, or goes on with it. A start that was killed before it was durable is made again.
func (c *crashes) args() []string {
	out, err := command(c.t, c.dir, "run", "list", "-o", "json").Output()
	if err != nil || strings.TrimSpace(string(out)) == "[]" {
		return []string{"run", "flow.yaml", "--id", "crash", "--json"}
	}
	return []string{"resume", "--json"}
}

// work lets a process carry the run; with kill, it is killed after a random time or a random number of events. It
// reports whether the run has ended.
func (c *crashes) work(kill bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := command(c.t, c.dir, c.args()...)
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
		if before, known := c.told[ev.Seq]; known && before != lines.Text() {
			c.t.Errorf("event %d was told as\n%s\nand is now\n%s", ev.Seq, before, lines.Text())
		}
		c.told[ev.Seq] = lines.Text()
		if _, known := c.finished[ev.Step]; !known && ev.Type == "step.succeeded" {
			c.finished[ev.Step] = c.effects()[ev.Step]
		}
	}
}

// effects counts how often each step has run.
func (c *crashes) effects() map[string]int {
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
	out, err := command(c.t, c.dir, "run", "show", "@last", "-o", "json").Output()
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
	out, err := command(c.t, c.dir, "run", "events", "@last", "--json").Output()
	if err != nil {
		c.t.Fatal(err)
	}
	history := map[int]string{}
	last := ""
	for line := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		var ev crashEvent
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			c.t.Fatal(err)
		}
		history[ev.Seq], last = line, ev.Type
	}
	if last != "run.succeeded" {
		c.t.Errorf("the run's last event is %s", last)
	}
	for seq, line := range c.told {
		if history[seq] != line {
			c.t.Errorf("event %d was told as\n%s\nand the history has\n%s", seq, line, history[seq])
		}
	}
	now := c.effects()
	for step, before := range c.finished {
		if now[step] > before && before > 0 {
			c.t.Errorf("step %s was reported as finished after %d executions, and was executed %d times", step, before,
				now[step])
		}
	}
	if now["end"] == 0 {
		c.t.Error("the last step never ran")
	}
	if out, err := command(c.t, c.dir, "doctor").CombinedOutput(); err != nil {
		c.t.Errorf("doctor: %v\n%s", err, out)
	}
}
