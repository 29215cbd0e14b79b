package main

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// The flows that are measured, as a person would write them.
var (
	oneStepFlow = `pawl: 1
name: onestep
steps:
  - {name: only, noop: {}}
`
	tenStepFlow = chain("tenstep", 10)

	retryFlow = `pawl: 1
name: retry
steps:
  - name: flaky
    task: {type: bench.flaky}
    retry: {maxAttempts: 3, initialInterval: 10ms, backoffCoefficient: 1, jitter: 0}
`
	heldFlow = `pawl: 1
name: held
steps:
  - {name: only, task: {type: bench.held}}
`
	sleepFlow = `pawl: 1
name: sleep
steps:
  - {name: rest, sleep: 1h}
`
	timerFlow = `pawl: 1
name: timer
steps:
  - name: rest
    sleep: {until: "${{ input }}"}
  - name: late
    needs: [rest]
    task: {type: bench.late, input: "${{ input }}"}
`
	twoStepFlow = `pawl: 1
name: twostep
steps:
  - name: first
    task: {type: bench.line, input: 1}
  - name: second
    needs: [first]
    task: {type: bench.line, input: 2}
`
	backoffFlow = `pawl: 1
name: backoff
steps:
  - name: broken
    task: {type: bench.broken}
    retry: {maxAttempts: 3, initialInterval: 1h, backoffCoefficient: 1, jitter: 0}
`
)

// chain writes a flow of noop steps, each of which needs the one before.
func chain(name string, steps int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pawl: 1\nname: %s\nsteps:\n", name)
	for i := range steps {
		fmt.Fprintf(&b, "  - {name: s%d, ", i)
		if i > 0 {
			fmt.Fprintf(&b, "needs: [s%d], ", i-1)
		}
		b.WriteString("noop: {}}\n")
	}
	return b.String()
}

// definition returns a flow as an engine needs it.
func definition(source string) journal.Definition {
	name, _, _ := strings.Cut(source[strings.Index(source, "name: ")+len("name: "):], "\n")
	hash := sha256.Sum256([]byte(source))
	return journal.Definition{ID: core.DefinitionID(hash[:16]), Kind: "flow", Name: name, Source: []byte(source)}
}

// compile compiles a definition from its source, as every program that embeds the engine does.
func compile(d journal.Definition) (*core.Definition, error) {
	doc, err := flow.Parse(d.Name+".yaml", d.Source)
	if err != nil {
		return nil, err
	}
	return flow.Compile(doc)
}
