package lease

import (
	"context"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
)

var _ kind.Plugin = (*Keeper)(nil)

// Kinds implements kind.Plugin: runs of Go functions are leased to the processes that have these.
func (k *Keeper) Kinds(journal.Journal, func(string) (journal.Definition, error)) map[string]engine.Kind {
	return map[string]engine.Kind{journal.KindGo: {
		Compile: k.Compile, Bodies: k,
		Child: kind.Children(func(_ core.DefinitionID, name string) (journal.Definition, error) {
			return k.Find(name)
		}),
	}}
}

// Open implements kind.Plugin. It reads what was stored of the workflows.
func (k *Keeper) Open(e *engine.Engine) error {
	k.Attach(e)
	return k.Load(context.Background())
}
