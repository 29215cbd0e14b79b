package conformance

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/aether"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/policy"
)

// generated is how many random documents of each system are made.
const generated = 60

// TestGenerated runs documents that are made up, directly and as what they are converted to: the same attempts at the
// same instants with the same commands and data, and the same end. perform compares the two.
func TestGenerated(t *testing.T) {
	for seed := range uint64(nightly.Few(12, generated)) {
		g := &generator{rand.New(rand.NewPCG(seed, 1))}
		t.Run(fmt.Sprintf("steep/%d", seed), func(t *testing.T) {
			w := g.steep()
			t.Log(w.workflow)
			perform(t, steepConversion(t, w.workflow, g.steepServices(), w.macros), w.script, nil, closes(t),
				func(s *stage) { s.files = 5 })
		})
		t.Run(fmt.Sprintf("stevora/%d", seed), func(t *testing.T) {
			steps, script, events := g.stevora()
			t.Log(steps)
			perform(t, stevoraFlow(t, steps), script, events.send, closes(t),
				func(s *stage) { s.taskTypes, s.input = []string{"Ask"}, `{"name": "ada"}` })
		})
		t.Run(fmt.Sprintf("aether/%d", seed), func(t *testing.T) {
			spec, tasks, templates, script, events := g.aether()
			t.Log(spec, tasks, templates)
			c, err := aether.Convert(aetherSource(spec, tasks, templates),
				aether.Source{Name: "handlers.yaml", Text: []byte(aetherHandlers)})
			if err != nil {
				t.Fatal(err)
			}
			perform(t, c, script, events.send, closes(t))
		})
		t.Run(fmt.Sprintf("temporal/%d", seed), func(t *testing.T) {
			document, script := g.flow("temporal", g.temporal, g.workflow())
			t.Log(document)
			perform(t, formed(t, document), script, nil, closes(t))
		})
		t.Run(fmt.Sprintf("zart/%d", seed), func(t *testing.T) {
			document, script := g.flow("zart", g.zart, "timeout: "+g.amount("s", 30, 90))
			t.Log(document)
			perform(t, formed(t, document), script, nil, closes(t))
		})
	}
}

// TestExamples does the same with the examples whose steps are bounded in the words of Temporal and Zart.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/dialects/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := flow.Parse(filepath.Base(file), text, dialect.Forms()...)
		if err != nil {
			continue // a file of another kind
		}
		seen++
		for seed := range uint64(10) {
			t.Run(fmt.Sprintf("%s/%d", doc.Name, seed), func(t *testing.T) {
				g := &generator{rand.New(rand.NewPCG(seed, 2))}
				script := map[string][]try{}
				for _, s := range doc.Steps {
					script[s.Name] = free(g.tries())
				}
				perform(t, &dialect.Conversion{Flow: doc}, script, nil, closes(t))
			})
		}
	}
	if seen < 3 {
		t.Errorf("%d examples", seen)
	}
}

func closes(t *testing.T) func(*stage, *core.Run) {
	return func(_ *stage, r *core.Run) {
		if !r.Phase.Closed() {
			t.Errorf("the run is %s", r.Phase)
		}
	}
}

// generator makes up documents and what their steps do.
type generator struct{ *rand.Rand }

func (g *generator) pick(words ...string) string { return words[g.IntN(len(words))] }

func (g *generator) tries() []try {
	tries := make([]try, 1+g.IntN(4))
	for i := range tries {
		tries[i].run = time.Duration(g.IntN(5000)) * time.Millisecond
		switch g.IntN(5) {
		case 0:
			tries[i].kind = policy.KindError
		case 1:
			tries[i].kind, tries[i].msg = policy.KindFailed, "known"
		case 2:
			tries[i].hang = true
		case 3:
			tries[i].lines = steadily(700*time.Millisecond, g.IntN(6))
		}
		if tries[i].kind == 0 && g.IntN(2) == 0 {
			tries[i].output = g.pick(`{"stateUpdates": {"x": 1, "mail": "hello"}}`, `{"stateUpdates": {"x": 0}}`,
				`{"o": 1, "list": ["p", "q"]}`, `{"o": "text", "list": []}`)
		}
	}
	if last := &tries[len(tries)-1]; last.hang {
		last.hang = false
	}
	return tries
}

// free avoids attempts that hang without a limit that ends them.
func free(tries []try) []try {
	for i := range tries {
		if tries[i].hang {
			tries[i].hang, tries[i].run = false, time.Minute
		}
	}
	return tries
}

// sent are events that arrive while a run goes on, each so long after the one before.
type sent []struct {
	after         time.Duration
	name, payload string
}

func (e sent) send(s *stage) {
	for _, one := range e {
		s.pass(one.after)
		// A run that has ended accepts no more events.
		in := core.SignalReceived{Name: one.name, Payload: []byte(one.payload)}
		_ = s.engine.Signal(s.t.Context(), s.root, in, false)
	}
}

// flow makes a flow whose steps, services and defaults are bounded in the words of a system.
func (g *generator) flow(system string, bounds func() string, run string) (string, map[string][]try) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: {%s}\n", system, run)
	if g.IntN(2) == 0 {
		fmt.Fprintf(&b, "defaults: {%s: {%s}}\n", system, bounds())
	}
	fmt.Fprintf(&b, "services:\n  s: {%s: {%s}}\n  t: {timeout: {inactivity: 3s}, retry: {maxAttempts: 2, "+
		"initialInterval: 0ms}}\nsteps:\n", system, bounds())
	script := map[string][]try{}
	for i := range 2 + g.IntN(5) {
		name := fmt.Sprintf("a%d", i)
		script[name] = free(g.tries())
		fields := "name: " + name
		if i > 0 && g.IntN(2) == 0 {
			fields += fmt.Sprintf(", needs: [a%d], continueOn: [error, failed, timeout]", g.IntN(i))
		}
		if g.IntN(3) == 0 {
			fields += ", service: " + g.pick("s", "t")
		}
		switch g.IntN(4) {
		case 0:
			fields += ", timeout: {startToClose: 4s}"
		default:
			fields += fmt.Sprintf(", %s: {%s}", system, bounds())
		}
		if g.IntN(5) == 0 {
			fields += ", forEach: [1, 2]"
		}
		fmt.Fprintf(&b, "  - {%s, exec: ./%s}\n", fields, name)
	}
	return b.String(), script
}

func (g *generator) amount(unit string, low, high int) string {
	return fmt.Sprintf("%d%s", low+g.IntN(high-low), unit)
}

// temporal makes an activity's options: complete, for those that they are laid over may be nothing.
func (g *generator) temporal() string {
	fields := []string{g.pick("startToCloseTimeout", "scheduleToCloseTimeout") + ": " + g.amount("ms", 500, 9000)}
	for _, name := range []string{"scheduleToStartTimeout", "heartbeatTimeout"} {
		if g.IntN(4) == 0 {
			fields = append(fields, name+": "+g.amount("ms", 500, 9000))
		}
	}
	retry := []string{fmt.Sprintf("maximumAttempts: %d", 1+g.IntN(4))}
	if g.IntN(2) == 0 {
		retry = append(retry, "initialInterval: "+g.amount("ms", 1, 2000),
			"backoffCoefficient: "+g.pick("0", "1.0", "1.5", "3"))
	}
	if g.IntN(3) == 0 {
		retry = append(retry, "maximumInterval: "+g.amount("s", 2, 5))
	}
	if g.IntN(3) == 0 {
		retry = append(retry, `nonRetryableErrorTypes: ["`+g.pick("Fraud", "TemporalTimeout:StartToClose",
			"TemporalTimeout:Heartbeat")+`"]`)
	}
	if g.IntN(5) > 0 {
		fields = append(fields, "retryPolicy: {"+strings.Join(retry, ", ")+"}")
	}
	return strings.Join(fields, ", ")
}

// workflow makes a workflow's options, of which the execution timeout lets everything end.
func (g *generator) workflow() string {
	fields := "workflowExecutionTimeout: " + g.amount("s", 60, 200)
	if g.IntN(3) == 0 {
		fields += ", workflowRunTimeout: " + g.amount("s", 10, 100)
	}
	if g.IntN(3) == 0 {
		fields += ", retryPolicy: {maximumAttempts: 2, nonRetryableErrorTypes: [" +
			g.pick("", "Fraud", `"TemporalTimeout:StartToClose"`) + "]}"
	}
	switch g.IntN(4) {
	case 0:
		fields += `, cronSchedule: "@every 40s"`
	case 1:
		fields += ", startDelay: 5s"
	}
	return fields
}

// zart makes a step's attributes.
func (g *generator) zart() string {
	var fields []string
	if g.IntN(3) > 0 {
		fields = append(fields, "timeout: "+g.amount("s", 1, 9))
	}
	if g.IntN(2) == 0 {
		fields = append(fields, "timeout_scope: "+g.pick("global", "per_attempt"))
	}
	if g.IntN(3) > 0 {
		fields = append(fields, fmt.Sprintf(`retry: "%s(%d, %s)"`, g.pick("fixed", "exponential"),
			1+g.IntN(4), g.amount("s", 0, 3)))
	}
	return strings.Join(fields, ", ")
}
