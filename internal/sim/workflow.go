package sim

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/sim/sdk"
)

// workflows is how many different flows exist for all universes together. A flow follows from its number alone, so
// universes can share its compiled form. To compile a flow costs as much as to run a small universe.
const workflows = 4096

// workflow is a generated flow file and its compiled form, or a program.
type workflow struct {
	source   journal.Definition
	program  *program       // nil: a flow
	sdk      bool           // an SDK decides
	document *flow.Document // nil: a program
	compiled *core.Definition
	err      error
}

// text describes a workflow for people.
func (w *workflow) text() string {
	if w.program != nil {
		return w.program.text()
	}
	return string(w.source.Source)
}

// spreads reports whether the workflow has child runs that may live in another partition.
func (w *workflow) spreads() bool {
	if w.program != nil {
		return anySpread(w.program.main)
	}
	if w.compiled == nil {
		return false
	}
	return slices.ContainsFunc(w.compiled.Specs, func(s *core.StepSpec) bool { return s.Spread })
}

// rewritten returns the compiled form of the workflow, as the universe's options change it.
func (u *universe) rewritten(w *workflow) (*core.Definition, error) {
	if u.opt.RewriteFlow == nil || w.program != nil {
		return w.compiled, nil
	}
	doc, err := flow.Parse(w.source.Name+".yaml", []byte(u.opt.RewriteFlow(w.text())), dialect.Forms()...)
	if err != nil {
		return nil, err
	}
	return flow.Compile(doc)
}

var library [workflows]struct {
	once sync.Once
	workflow
}

// workflowAt returns flow n.
func workflowAt(n int) *workflow {
	slot := &library[n]
	slot.once.Do(func() {
		slot.source = newSource(n)
		doc, err := flow.Parse(slot.source.Name+".yaml", slot.source.Source, dialect.Forms()...)
		if err == nil {
			slot.compiled, err = flow.Compile(doc)
		}
		slot.document, slot.err = doc, err
	})
	return &slot.workflow
}

func workflowName(n int) string { return "w" + strconv.Itoa(n) }

// workflowNamed returns a workflow by the name that child steps use.
func workflowNamed(name string) (*workflow, error) {
	if sdk.IsName(name) {
		return sdkWorkflow(name)
	}
	if number, ok := strings.CutPrefix(name, "b"); ok {
		if n, err := strconv.Atoi(number); err == nil && n >= 0 && n < programs {
			return programAt(n), nil
		}
	}
	n, err := strconv.Atoi(strings.TrimPrefix(name, "w"))
	if err != nil || n < 0 || n >= workflows {
		return nil, fmt.Errorf("no workflow %q", name)
	}
	w := workflowAt(n)
	return w, w.err
}

// flowGenerator generates one flow file.
type flowGenerator struct {
	random
	strings.Builder
	n     int
	steps int
	again bool // the flow retries its runs

	shared *random // the random numbers for the services that its tasks use; nil if they use none
}

func newSource(n int) journal.Definition {
	a := &flowGenerator{random: newRandom(uint64(n), 0x5eed), n: n}
	a.write()
	text := []byte(a.String())
	sum := sha256.Sum256(text)
	return journal.Definition{
		ID: core.DefinitionID(sum[:16]), Kind: journal.KindFlow, Name: workflowName(n), Source: text,
	}
}

// parent reports whether the workflow may start child runs. Its children may not, so trees are two runs deep.
func (g *flowGenerator) parent() bool { return g.n%3 == 0 }

func (g *flowGenerator) line(indent int, format string, args ...any) {
	g.WriteString(strings.Repeat("  ", indent))
	fmt.Fprintf(g, format+"\n", args...)
}

func (g *flowGenerator) write() {
	g.line(0, "pawl: 1")
	g.line(0, "name: %s", workflowName(g.n))
	g.line(0, "input: true")
	g.queueText()
	retry, run := "", ""
	if g.again = g.chance(0.25); g.again {
		retry = g.runRetry()
	}
	chain := g.timed()
	if g.chance(0.15) {
		run = g.limit("run", 10*time.Second, 6*time.Hour)
	}
	switch {
	case chain != "" && g.again: // the words of the system that has chains say all of it
		g.line(0, "temporal: {%s, retryPolicy: {initialInterval: 20s, maximumAttempts: 3}}", chain)
	case chain != "":
		g.line(0, "temporal: {%s}", chain)
	default:
		if retry != "" {
			g.line(0, "retry: %s", retry)
		}
		if run != "" {
			g.line(0, "timeout: {run: %s}", run)
		}
	}
	if g.chance(0.15) {
		g.line(0, "defaults: {retry: %s}", g.retry())
	}
	if own := newRandom(uint64(g.n), 0x5e41); own.chance(0.5) {
		g.shared = &own
		g.WriteString(serviceText)
	}
	g.line(0, "steps:")
	g.steps = 1 + g.IntN(6)
	if g.chance(0.05) {
		g.steps += g.IntN(12)
	}
	for i := range g.steps {
		g.step(i)
	}
	g.loops()
	g.hooks()
	g.notify()
	if g.chance(0.3) {
		g.line(0, `output: {first: "${{ steps.s0.output }}", n: "${{ input.n }}"}`)
	}
}

// timed gives some workflows a start delay, or a chain of runs by a cron expression: it returns that expression and an
// execution limit, which ends the chain. It uses random numbers of its own, so that the other workflows do not change.
func (g *flowGenerator) timed() string {
	own := &flowGenerator{random: newRandom(uint64(g.n), 0xc204)}
	switch n := own.IntN(20); n {
	case 0, 1:
		return fmt.Sprintf("cronSchedule: %q, workflowExecutionTimeout: %s", []string{"@every 4m", "*/15 * * * *"}[n],
			own.amount(10*time.Minute, 3*time.Hour))
	case 2:
		g.line(0, "startDelay: %s", own.amount(time.Second, time.Hour))
	case 3, 4:
		g.line(0, "failFast: true")
	}
	return ""
}

// trigger makes some steps begin by another rule than that all their needs succeeded. It uses random numbers of its
// own, so that the other workflows do not change.
func (g *flowGenerator) trigger(i int) {
	own := newRandom(uint64(g.n), 0x7e16+uint64(i))
	if own.chance(0.2) {
		g.line(2, "trigger: %s", pick(own, []string{"always", "anyFailed", "allFailed", "anySucceeded"}))
	}
}

func (g *flowGenerator) step(i int) {
	g.line(1, "- name: s%d", i)
	var needs []string
	for need := range i {
		if g.chance(1.2 / float64(i)) {
			needs = append(needs, fmt.Sprintf("s%d", need))
		}
	}
	if len(needs) > 0 {
		g.line(2, "needs: [%s]", strings.Join(needs, ", "))
		g.trigger(i)
	}
	if g.chance(0.12) {
		if len(needs) > 0 && g.chance(0.5) {
			g.line(2, "when: \"steps.%s.phase == 'succeeded'\"", needs[0])
		} else {
			g.line(2, `when: "input.n > %d"`, g.IntN(6))
		}
	}
	if g.chance(0.3) {
		g.line(2, "continueOn: [%s]", strings.Join(g.some("error", "failed", "timeout", "cancelled"), ", "))
	}
	switch x := g.Float64(); {
	case g.again && x < 0.3: // so that chains of runs take events
		g.event(i)
	case x < 0.62:
		g.task(2)
	case x < 0.72:
		g.line(2, "sleep: %s", g.amount(time.Millisecond, 20*time.Minute))
		g.limits(2, "scheduleToClose", "deadline")
	case x < 0.84:
		g.event(i)
		g.limits(2, "wait", "scheduleToClose", "deadline")
	case x < 0.92 && g.parent():
		child := workflowName(g.IntN(workflows/3)*3 + 1)
		g.line(2, `flow: {name: %s, input: {n: "${{ input.n }}", list: [1, 2]}, spread: %t}`, child, g.n%2 == 0)
		g.policy(2, "scheduleToClose", "deadline", "startToClose")
	default:
		if g.chance(0.5) {
			g.line(2, `forEach: "${{ input.list }}"`)
		} else {
			g.line(2, "forEach: [a, b, c]")
		}
		g.line(2, "concurrency: %d", 1+g.IntN(4))
		g.task(2)
	}
}

// loops adds loops to some workflows: steps that go on item by item, a loop in a loop, and items that make items. It
// uses random numbers of its own, so that the other workflows do not change.
func (g *flowGenerator) loops() {
	own := &flowGenerator{random: newRandom(uint64(g.n), 0x100b), n: g.n}
	if !own.chance(0.4) {
		return
	}
	step := func(name, fields string, args ...any) {
		own.line(1, "- name: %s", name)
		own.line(2, fields, args...)
	}
	step("loop", "forEach: [p, q, r]")
	if own.chance(0.3) {
		own.line(2, "needs: [s0]")
	}
	step("begins", "each: loop")
	own.task(2)
	step("follows", "each: loop")
	own.line(2, "needs: [begins, s0]")
	own.line(2, "concurrency: %d", 1+own.IntN(3))
	own.task(2)
	step("parts", "each: loop")
	own.line(2, "needs: [begins]")
	own.line(2, `forEach: "${{ item == 'q' ? [] : [item, index] }}"`)
	own.line(2, `more: "${{ index < 4 ? [steps.part.phase] : [] }}"`)
	step("part", "each: parts")
	own.line(2, "continueOn: [error, failed]")
	own.task(2)
	step("gathers", "each: loop")
	own.line(2, "needs: [part]")
	own.line(2, `sleep: "${{ 1 + len(steps.part.outputs) }}s"`)
	step("ends", "needs: [%s]", pick(own.random, []string{"gathers", "part, follows", "parts"}))
	own.task(2)
	g.WriteString(own.String())
}

// loopSteps are the loops and the steps with each.
var loopSteps = []string{"loop", "begins", "follows", "parts", "part", "gathers"}

func (g *flowGenerator) task(indent int) {
	g.service(indent)
	if g.chance(0.1) {
		g.line(indent, "priority: %d", g.IntN(5)-2)
	}
	if g.chance(0.3) {
		g.line(indent, `task: {type: %s, input: {n: "${{ input.n }}", attempt: "${{ attempt }}"}}`, g.taskType())
	} else {
		g.line(indent, "task: {type: %s}", g.taskType())
	}
	g.policy(indent, "scheduleToStart", "startToClose", "scheduleToClose", "deadline", "heartbeat", "inactivity")
}

func (g *flowGenerator) taskType() string { return pick(g.random, []string{"a", "a", "b", "c"}) }

// event makes a step wait for an event, or for the first of several events and steps. That uses random numbers of its
// own, so that the other workflows do not change.
func (g *flowGenerator) event(i int) {
	event := pick(g.random, events)
	own := newRandom(uint64(g.n), 0xf125+uint64(i))
	switch other := pick(own, events); {
	case own.chance(0.2) && other != event:
		g.line(2, "wait: {any: [%s, %s]}", event, other)
	case own.chance(0.2) && i > 0:
		g.line(2, "wait: {any: [%s, {step: s%d}]}", event, own.IntN(i))
	default:
		g.line(2, "wait: {event: %s}", event)
	}
}

// awaited returns the alternative events of a wait.
func awaited(s *core.StepSpec) []string {
	if s.Any != nil {
		return s.Any
	}
	return []string{s.Event}
}

// events are the names of the events that workflows wait for and clients send.
var events = []string{"go", "approved", "paid"}

func (g *flowGenerator) policy(indent int, limits ...string) {
	if g.chance(0.6) {
		g.line(indent, "retry: %s", g.retry())
	}
	g.limits(indent, limits...)
}

func (g *flowGenerator) limits(indent int, limits ...string) {
	var out []string
	for _, kind := range limits {
		if !g.chance(0.28) {
			continue
		}
		low, high := 100*time.Millisecond, 10*time.Minute
		if kind == "wait" {
			low, high = time.Second, 30*time.Minute
		}
		if kind == "scheduleToClose" || kind == "deadline" {
			low, high = time.Second, 2*time.Hour
		}
		out = append(out, kind+": "+g.limit(kind, low, high))
	}
	if len(out) > 0 {
		g.line(indent, "timeout: {%s}", strings.Join(out, ", "))
	}
}

func (g *flowGenerator) limit(kind string, low, high time.Duration) string {
	if kind == "deadline" && g.chance(0.06) {
		return "{at: " + epoch.Add(g.span(time.Second, 3*time.Hour)).Std().Format(time.RFC3339) + "}"
	}
	if g.chance(0.5) {
		return g.amount(low, high)
	}
	fields := []string{"after: " + g.amount(low, high)}
	if g.chance(0.4) {
		fields = append(fields, "onExpire: cancel")
	}
	switch kind {
	case "scheduleToStart", "startToClose", "heartbeat", "inactivity":
		if g.chance(0.5) {
			fields = append(fields, "retry: "+strconv.FormatBool(g.chance(0.5)))
		}
	}
	if g.chance(0.3) {
		fields = append(fields, fmt.Sprintf("warn: %d", 10+g.IntN(89)))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func (g *flowGenerator) amount(low, high time.Duration) string {
	return duration.Format(max(g.span(low, high).Truncate(time.Millisecond), time.Millisecond))
}

func (g *flowGenerator) retry() string {
	if g.chance(0.3) {
		return fmt.Sprintf("%q", fmt.Sprintf("fixed(%d, %s)", 1+g.IntN(5), g.amount(time.Millisecond, time.Minute)))
	}
	attempts := strconv.Itoa(2 + g.IntN(5))
	low := time.Millisecond
	switch {
	case g.chance(0.12):
		attempts, low = "unlimited", time.Second
	case g.chance(0.03):
		attempts = "0"
	}
	initial := g.span(low, time.Minute).Truncate(time.Millisecond)
	fields := []string{
		"maxAttempts: " + attempts, "initialInterval: " + duration.Format(initial),
		fmt.Sprintf("backoffCoefficient: %.2f", 1+2*g.Float64()),
	}
	if capped := g.chance(0.5); !capped && attempts == "unlimited" {
		fields = append(fields, "maxInterval: 1h") // else its pauses grow to years, and no universe lasts that long
	} else if capped {
		longest := initial + g.span(time.Millisecond, 10*time.Minute).Truncate(time.Millisecond)
		fields = append(fields, "maxInterval: "+duration.Format(longest))
	}
	switch g.IntN(4) {
	case 0:
		fields = append(fields, fmt.Sprintf("jitter: %.2f", g.Float64()))
	case 1:
		fields = append(fields, "jitter: decorrelated")
	}
	switch {
	case g.chance(0.2):
		fields = append(fields, "on: ["+strings.Join(g.some("error", "failed", "timeout"), ", ")+"]")
	case g.chance(0.15):
		when := pick(g.random, []string{
			"attempt < 4", "code == 503", "failure.type == 'Transient'", "failure.kind != 'failed' && attempt < 6",
		})
		fields = append(fields, fmt.Sprintf("when: %q", when))
	}
	if g.chance(0.2) {
		fields = append(fields, "nonRetryable: [Fatal]")
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// runRetry returns a retry policy that always limits the attempts, so that every chain ends.
func (g *flowGenerator) runRetry() string {
	return fmt.Sprintf("{maxAttempts: %d, initialInterval: %s, backoffCoefficient: 1.5}",
		2+g.IntN(3), g.amount(time.Millisecond, 5*time.Minute))
}

func (g *flowGenerator) hooks() {
	if !g.chance(0.4) {
		return
	}
	g.line(0, "hooks:")
	for _, name := range g.some("onSuccess", "onFailure", "onTimeout", "onCancel", "onExit") {
		g.line(1, "%s:", name)
		if name == "onExit" && g.chance(0.2) {
			g.line(2, "sleep: %s", g.amount(time.Millisecond, time.Minute))
			continue
		}
		g.task(2)
	}
}

// notify makes some workflows send notices of a failure. It uses random numbers of its own, so that the other workflows
// do not change.
func (g *flowGenerator) notify() {
	own := newRandom(uint64(g.n), 0x0711)
	if own.chance(0.3) {
		retry := pick(own, []string{"none", "fixed(2, 1s)", "exponential(3, 1s, max=1m)"})
		g.line(0, `notify: {name: %s, task: {type: %s, input: "${{ notice.text }}"}, retry: %q}`,
			toldName, pick(own, []string{"a", "b", "c"}), retry)
	}
}

// some returns at least one of the words.
func (g *flowGenerator) some(words ...string) []string {
	var out []string
	for _, w := range words {
		if g.chance(0.45) {
			out = append(out, w)
		}
	}
	if out == nil {
		out = []string{pick(g.random, words)}
	}
	return out
}
