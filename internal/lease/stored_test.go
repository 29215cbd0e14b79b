package lease

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// counted are documents that count how often something was stored.
type counted struct {
	journal.Documents
	puts int
}

func (c *counted) PutDocuments(ctx context.Context, all ...journal.Document) error {
	c.puts++
	return c.Documents.PutDocuments(ctx, all...)
}

// TestWorkflowIsStoredOnce checks that a workflow with several hooks that has not changed is stored by the first join
// alone.
func TestWorkflowIsStoredOnce(t *testing.T) {
	documents := &counted{Documents: memory.New()}
	k := NewKeeper(KeeperConfig{Documents: documents, Now: func() core.Time { return 1 }})
	k.Attach(&noted{})
	w := Served{
		Definition: journal.Definition{Kind: journal.KindGo, Name: "w"}, Hooks: map[string]*core.StepSpec{},
	}
	for _, hook := range []string{"a", "b", "c", "d"} {
		w.Hooks[hook] = &core.StepSpec{Name: hook, Def: -1}
	}
	for i := range 20 {
		options, err := encodeWorkflows([]Served{w})
		if err != nil {
			t.Fatal(err)
		}
		err = k.JoinBodies(t.Context(), api.BodiesJoin{
			Holder: fmt.Sprint("a-holder-of-leases-", i), Slots: 1, Workflows: []string{"w"}, Options: options,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if documents.puts != 1 {
		t.Errorf("it was stored %d times", documents.puts)
	}
	w.Hooks["d"].Name = "e"
	changed, err := encodeWorkflows([]Served{w})
	if err != nil {
		t.Fatal(err)
	}
	err = k.JoinBodies(t.Context(), api.BodiesJoin{
		Holder: "a-holder-of-other-hooks", Slots: 1, Workflows: []string{"w"}, Options: changed,
	})
	if err != nil || documents.puts != 2 {
		t.Errorf("with another hook it was stored %d times, %v", documents.puts, err)
	}
}
