package pawlflow_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/journal/memory"
	"github.com/pawl-dev/pawl/pawlflow"
)

// TestSecretsThatPanic checks that an attempt fails whose secret cannot be looked up without a panic, and that the next
// one has it.
func TestSecretsThatPanic(t *testing.T) {
	var asked atomic.Int64
	f := pawlflow.Define[any, any](parsed(t, "told", `
secrets: [token]
steps:
  - name: tell
    exec: {command: ["true"], env: {TOKEN: "${{ secrets.token }}"}}
    retry: fixed(3, 1ms)
`))
	e, err := pawl.Open(t.Context(), pawl.Config{
		Journal: memory.New(), Workflows: []pawl.Definition{f},
		Secrets: func(context.Context, string) (string, error) {
			if asked.Add(1) == 1 {
				panic("the vault is sealed")
			}
			return "a token of some length", nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	if _, err := run(t, e, f, any(nil)); err != nil || asked.Load() < 2 {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
}
