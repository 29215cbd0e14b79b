package conformance

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/core"
	"github.com/pawl-dev/pawl/dialect/aether"
	"github.com/pawl-dev/pawl/policy"
)

// generated is how many documents of each system are made up.
const generated = 40

// TestGenerated runs documents that are made up, directly and as what they are converted to: the same attempts at the same
// instants, and the same end. perform compares the two.
func TestGenerated(t *testing.T) {
	for seed := range uint64(generated) {
		g := &generator{rand.New(rand.NewPCG(seed, 1))}
		t.Run(fmt.Sprintf("steep/%d", seed), func(t *testing.T) {
			workflow, script := g.steep()
			t.Log(workflow)
			perform(t, steepConversion(t, workflow, steepServices, ""), script, nil, closes(t))
		})
		t.Run(fmt.Sprintf("stevora/%d", seed), func(t *testing.T) {
			steps, script := g.stevora()
			t.Log(steps)
			perform(t, stevoraFlow(t, steps), script, nil, closes(t))
		})
		t.Run(fmt.Sprintf("aether/%d", seed), func(t *testing.T) {
			tasks, script := g.aether()
			t.Log(tasks)
			c, err := aether.Convert(aetherSource("", tasks, ""), aether.Source{Name: "handlers.yaml", Text: []byte(aetherHandlers)})
			if err != nil {
				t.Fatal(err)
			}
			perform(t, c, script, nil, closes(t))
		})
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
	}
	if last := &tries[len(tries)-1]; last.hang {
		last.hang = false
	}
	return tries
}

func (g *generator) steepPolicy() string {
	var fields []string
	if g.IntN(2) == 0 {
		fields = append(fields, fmt.Sprintf("retries: {maxAttempts: %d, delay: %dms, exponentialBackoff: %s, maxDelay: 2s}", g.IntN(5), g.IntN(3000), g.pick("1", "2", "1.5")))
	}
	for _, clock := range []string{"maxInactivity", "maxRuntime", "deadline"} {
		if g.IntN(3) == 0 {
			fields = append(fields, fmt.Sprintf("%s: {timeout: %dms, errorOnTimeout: %s}", clock, 500+g.IntN(8000), g.pick("true", "false")))
		}
	}
	// Whatever hangs ends.
	return strings.Join(append(fields, "dependsOn: []"), ", ")
}

func (g *generator) steep() (string, map[string][]try) {
	var b strings.Builder
	b.WriteString("api: 4.7.0\nname: w\n")
	if g.IntN(2) == 0 {
		fmt.Fprintf(&b, "retries: {processChains: {maxAttempts: %d, delay: 1s}}\n", 1+g.IntN(3))
	}
	b.WriteString("vars: [{id: list, value: [x, y]}]\nactions:\n")
	script := map[string][]try{}
	n := 2 + g.IntN(6)
	for i := range n {
		input := "{id: in, value: x}"
		if i > 0 && g.IntN(3) > 0 {
			input = fmt.Sprintf("{id: in, var: v%d}", g.IntN(i))
		}
		tries := g.tries()
		script[fmt.Sprintf("a%d", i)] = free(tries)
		action := fmt.Sprintf("{type: execute, id: a%d, service: one, inputs: [%s], outputs: [{id: out, var: %s}], %s}", i, input, "%s", g.steepPolicy())
		if g.IntN(4) == 0 && i > 0 {
			fmt.Fprintf(&b, "  - {type: for, id: f%d, input: list, enumerator: e%d, output: v%d, yieldToOutput: w%d, actions: [%s]}\n", i, i, i, i,
				fmt.Sprintf(strings.Replace(action, input, fmt.Sprintf("{id: in, var: e%d}", i), 1), fmt.Sprintf("w%d", i)))
			continue
		}
		fmt.Fprintf(&b, "  - %s\n", fmt.Sprintf(action, fmt.Sprintf("v%d", i)))
	}
	return b.String(), script
}

// free lets nothing hang that no limit might end.
func free(tries []try) []try {
	for i := range tries {
		if tries[i].hang {
			tries[i].hang, tries[i].run = false, time.Minute
		}
	}
	return tries
}

func (g *generator) stevora() (string, map[string][]try) {
	script := map[string][]try{}
	n := 2 + g.IntN(6)
	steps := make([]string, n)
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		switch {
		case g.IntN(4) == 0 && i+2 < n:
			steps[i] = fmt.Sprintf(`{"type": "condition", "name": %q, "expression": "input.x", "trueStep": "s%d", "falseStep": "s%d"}`, name, i+1, i+1+g.IntN(n-i-1))
		case g.IntN(5) == 0:
			steps[i] = fmt.Sprintf(`{"type": "wait", "name": %q, "durationMs": %d}`, name, g.IntN(9000))
		default:
			script[name] = free(g.tries())
			steps[i] = fmt.Sprintf(`{"type": "task", "name": %q, "handler": "call", "retry": {"maxAttempts": %d, "backoffMs": %d, "backoffMultiplier": %s}}`, name, 1+g.IntN(4), 100+g.IntN(3000), g.pick("1", "1.5", "3"))
		}
	}
	return strings.Join(steps, ",\n"), script
}

func (g *generator) aether() (string, map[string][]try) {
	script := map[string][]try{}
	n := 2 + g.IntN(6)
	tasks := make([]string, n)
	for i := range n {
		name := fmt.Sprintf("t%d", i)
		script[name] = free(g.tries())
		fields := fmt.Sprintf(`"name": %q, "template": "work"`, name)
		if i > 0 && g.IntN(3) > 0 {
			need := fmt.Sprintf("t%d", g.IntN(i))
			fields += fmt.Sprintf(`, "dependencies": [%q]`, need)
			if g.IntN(2) == 0 {
				fields += fmt.Sprintf(`, "when": "tasks.%s.phase %s 'Succeeded'"`, need, g.pick("==", "!="))
			}
		}
		if g.IntN(2) == 0 {
			fields += fmt.Sprintf(`, "timeout": "%dms"`, 500+g.IntN(9000))
		}
		switch g.IntN(3) {
		case 0:
			fields += fmt.Sprintf(`, "retry": {"limit": %d}`, g.IntN(4))
		case 1:
			fields += fmt.Sprintf(`, "retry": {"limit": %d, "expression": "tasks.%s.phase %s '%s'"}`, g.IntN(4), name, g.pick("==", "!="), g.pick("Failed", "Error", "Timeout"))
		}
		fields += fmt.Sprintf(`, "continueOn": {"failed": %s, "error": %s, "timeout": %s}`, g.pick("true", "false"), g.pick("true", "false"), g.pick("true", "false"))
		tasks[i] = "{" + fields + "}"
	}
	return strings.Join(tasks, ",\n"), script
}
