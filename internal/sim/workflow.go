package sim

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// workflows is how many different workflows there are over all universes. Each is made from its number alone, so the
// compiled form is shared between universes: compiling one costs as much as running a small one.
const workflows = 4096

// A workflow is a generated flow file and what the flow package makes of it, or a program.
type workflow struct {
	source   journal.Definition
	program  *program // nil: a flow
	compiled *core.Definition
	err      error
}

// text writes a workflow for people.
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

var library [workflows]struct {
	once sync.Once
	workflow
}

// workflowAt makes the workflow of a number.
func workflowAt(n int) *workflow {
	slot := &library[n]
	slot.once.Do(func() {
		slot.source = newSource(n)
		doc, err := flow.Parse(slot.source.Name+".yaml", slot.source.Source)
		if err == nil {
			slot.compiled, err = flow.Compile(doc)
		}
		slot.err = err
	})
	return &slot.workflow
}

func workflowName(n int) string { return "w" + strconv.Itoa(n) }

// workflowNamed finds a workflow by what a child step calls it.
func workflowNamed(name string) (*workflow, error) {
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

// author writes one flow file.
type author struct {
	random
	strings.Builder
	n     int
	steps int
	again bool // it has a run retry policy

	shared *random // of the services that its tasks use; nil: they use none
}

func newSource(n int) journal.Definition {
	a := &author{random: newRandom(uint64(n), 0x5eed), n: n}
	a.write()
	text := []byte(a.String())
	sum := sha256.Sum256(text)
	return journal.Definition{ID: core.DefinitionID(sum[:16]), Kind: journal.KindFlow, Name: workflowName(n), Source: text}
}

// parent reports whether the workflow may start child runs; children do not, so trees are two deep.
func (a *author) parent() bool { return a.n%3 == 0 }

func (a *author) line(indent int, format string, args ...any) {
	a.WriteString(strings.Repeat("  ", indent))
	fmt.Fprintf(a, format+"\n", args...)
}

func (a *author) write() {
	a.line(0, "pawl: 1")
	a.line(0, "name: %s", workflowName(a.n))
	if a.again = a.chance(0.25); a.again {
		a.line(0, "retry: %s", a.runRetry())
	}
	limits := a.timed()
	if a.chance(0.15) {
		limits = append(limits, "run: "+a.limit("run", 10*time.Second, 6*time.Hour))
	}
	if len(limits) > 0 {
		a.line(0, "timeout: {%s}", strings.Join(limits, ", "))
	}
	if a.chance(0.15) {
		a.line(0, "defaults: {retry: %s}", a.retry())
	}
	if own := newRandom(uint64(a.n), 0x5e41); own.chance(0.3) {
		a.shared = &own
		a.WriteString(serviceText)
	}
	a.line(0, "steps:")
	a.steps = 1 + a.IntN(6)
	if a.chance(0.05) {
		a.steps += a.IntN(12)
	}
	for i := range a.steps {
		a.step(i)
	}
	a.hooks()
	if a.chance(0.3) {
		a.line(0, `output: {first: "${{ steps.s0.output }}", n: "${{ input.n }}"}`)
	}
}

// timed lets some workflows begin later, or again and again by cron until their execution limit, which it returns. It draws
// from numbers of its own, so that the other workflows stay as they are.
func (a *author) timed() []string {
	own := &author{random: newRandom(uint64(a.n), 0xc204)}
	switch n := own.IntN(20); n {
	case 0, 1:
		a.line(0, "cron: %q", []string{"@every 4m", "*/15 * * * *"}[n])
		return []string{"execution: " + own.amount(10*time.Minute, 3*time.Hour)}
	case 2:
		a.line(0, "startDelay: %s", own.amount(time.Second, time.Hour))
	}
	return nil
}

func (a *author) step(i int) {
	a.line(1, "- name: s%d", i)
	var needs []string
	for need := range i {
		if a.chance(1.2 / float64(i)) {
			needs = append(needs, fmt.Sprintf("s%d", need))
		}
	}
	if len(needs) > 0 {
		a.line(2, "needs: [%s]", strings.Join(needs, ", "))
	}
	if a.chance(0.12) {
		if len(needs) > 0 && a.chance(0.5) {
			a.line(2, "when: \"steps.%s.phase == 'succeeded'\"", needs[0])
		} else {
			a.line(2, `when: "input.n > %d"`, a.IntN(6))
		}
	}
	if a.chance(0.3) {
		a.line(2, "continueOn: [%s]", strings.Join(a.some("error", "failed", "timeout", "cancelled"), ", "))
	}
	switch x := a.Float64(); {
	case a.again && x < 0.3: // so that events are taken in chains
		a.event()
	case x < 0.62:
		a.task(2)
	case x < 0.72:
		a.line(2, "sleep: %s", a.amount(time.Millisecond, 20*time.Minute))
		a.limits(2, "scheduleToClose", "deadline")
	case x < 0.84:
		a.event()
		a.limits(2, "wait", "scheduleToClose", "deadline")
	case x < 0.92 && a.parent():
		a.line(2, `flow: {name: %s, input: {n: "${{ input.n }}", list: [1, 2]}, spread: %t}`, workflowName(a.IntN(workflows/3)*3+1), a.n%2 == 0)
		a.policy(2, "scheduleToClose", "deadline", "startToClose")
	default:
		if a.chance(0.5) {
			a.line(2, `forEach: "${{ input.list }}"`)
		} else {
			a.line(2, "forEach: [a, b, c]")
		}
		a.line(2, "concurrency: %d", 1+a.IntN(4))
		a.task(2)
	}
}

func (a *author) task(indent int) {
	a.service(indent)
	if a.chance(0.1) {
		a.line(indent, "priority: %d", a.IntN(5)-2)
	}
	if a.chance(0.3) {
		a.line(indent, `task: {type: %s, input: {n: "${{ input.n }}", attempt: "${{ attempt }}"}}`, a.taskType())
	} else {
		a.line(indent, "task: {type: %s}", a.taskType())
	}
	a.policy(indent, "scheduleToStart", "startToClose", "scheduleToClose", "deadline", "heartbeat", "inactivity")
}

func (a *author) taskType() string { return pick(a.random, []string{"a", "a", "b", "c"}) }

func (a *author) event() { a.line(2, "wait: {event: %s}", pick(a.random, events)) }

// events are the names of the events that workflows wait for and clients send.
var events = []string{"go", "approved", "paid"}

func (a *author) policy(indent int, limits ...string) {
	if a.chance(0.6) {
		a.line(indent, "retry: %s", a.retry())
	}
	a.limits(indent, limits...)
}

func (a *author) limits(indent int, limits ...string) {
	var out []string
	for _, kind := range limits {
		if !a.chance(0.28) {
			continue
		}
		low, high := 100*time.Millisecond, 10*time.Minute
		if kind == "wait" {
			low, high = time.Second, 30*time.Minute
		}
		if kind == "scheduleToClose" || kind == "deadline" {
			low, high = time.Second, 2*time.Hour
		}
		out = append(out, kind+": "+a.limit(kind, low, high))
	}
	if len(out) > 0 {
		a.line(indent, "timeout: {%s}", strings.Join(out, ", "))
	}
}

func (a *author) limit(kind string, low, high time.Duration) string {
	if kind == "deadline" && a.chance(0.06) {
		return "{at: " + epoch.Add(a.span(time.Second, 3*time.Hour)).Std().Format(time.RFC3339) + "}"
	}
	if a.chance(0.5) {
		return a.amount(low, high)
	}
	fields := []string{"after: " + a.amount(low, high)}
	if a.chance(0.4) {
		fields = append(fields, "onExpire: cancel")
	}
	switch kind {
	case "scheduleToStart", "startToClose", "heartbeat", "inactivity":
		if a.chance(0.5) {
			fields = append(fields, "retry: "+strconv.FormatBool(a.chance(0.5)))
		}
	}
	if a.chance(0.3) {
		fields = append(fields, fmt.Sprintf("warn: %d", 10+a.IntN(89)))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func (a *author) amount(low, high time.Duration) string {
	return duration.Format(max(a.span(low, high).Truncate(time.Millisecond), time.Millisecond))
}

func (a *author) retry() string {
	if a.chance(0.3) {
		return fmt.Sprintf("%q", fmt.Sprintf("fixed(%d, %s)", 1+a.IntN(5), a.amount(time.Millisecond, time.Minute)))
	}
	attempts := strconv.Itoa(2 + a.IntN(5))
	low := time.Millisecond
	switch {
	case a.chance(0.12):
		attempts, low = "unlimited", time.Second
	case a.chance(0.03):
		attempts = "0"
	}
	initial := a.span(low, time.Minute).Truncate(time.Millisecond)
	fields := []string{
		"maxAttempts: " + attempts, "initialInterval: " + duration.Format(initial),
		fmt.Sprintf("backoffCoefficient: %.2f", 1+2*a.Float64()),
	}
	if a.chance(0.5) {
		fields = append(fields, "maxInterval: "+duration.Format(initial+a.span(time.Millisecond, 10*time.Minute).Truncate(time.Millisecond)))
	}
	switch a.IntN(4) {
	case 0:
		fields = append(fields, fmt.Sprintf("jitter: %.2f", a.Float64()))
	case 1:
		fields = append(fields, "jitter: decorrelated")
	}
	switch {
	case a.chance(0.2):
		fields = append(fields, "on: ["+strings.Join(a.some("error", "failed", "timeout"), ", ")+"]")
	case a.chance(0.15):
		when := pick(a.random, []string{"attempt < 4", "code == 503", "failure.type == 'Transient'", "failure.kind != 'failed' && attempt < 6"})
		fields = append(fields, fmt.Sprintf("when: %q", when))
	}
	if a.chance(0.2) {
		fields = append(fields, "nonRetryable: [Fatal]")
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// runRetry bounds the attempts, so that every chain ends.
func (a *author) runRetry() string {
	return fmt.Sprintf("{maxAttempts: %d, initialInterval: %s, backoffCoefficient: 1.5}", 2+a.IntN(3), a.amount(time.Millisecond, 5*time.Minute))
}

func (a *author) hooks() {
	if !a.chance(0.4) {
		return
	}
	a.line(0, "hooks:")
	for _, name := range a.some("onSuccess", "onFailure", "onTimeout", "onCancel", "onExit") {
		a.line(1, "%s:", name)
		if name == "onExit" && a.chance(0.2) {
			a.line(2, "sleep: %s", a.amount(time.Millisecond, time.Minute))
			continue
		}
		a.task(2)
	}
}

// some draws at least one of the words.
func (a *author) some(words ...string) []string {
	var out []string
	for _, w := range words {
		if a.chance(0.45) {
			out = append(out, w)
		}
	}
	if out == nil {
		out = []string{pick(a.random, words)}
	}
	return out
}
