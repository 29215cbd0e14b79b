package kind

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Traits are what others ask of a kind of workflows whose runs they do not carry on.
type Traits struct {
	// Body: a function decides what its runs do. It can be called again with the history of a run, to see whether the
	// code still fits.
	Body bool
	// Coded: the values of its runs are what the codec of their program has made of them. Else they are JSON.
	Coded bool
	// Served: programs serve its workflows to a server, which leases them the runs.
	Served bool
	// Shown is the definition by which runs are shown: what is known of their steps is in the runs. nil: the stored
	// definition says which steps there are.
	Shown *core.Definition
}

// functions are the traits of Go functions.
var functions = Traits{Body: true, Coded: true, Served: true, Shown: &core.Definition{HasBody: true}}

// described are the traits that packages have told, by the name of the kind.
var described sync.Map

// Describe tells the traits of a kind. The package that has the kind calls it when it is initialised.
func Describe(name string, t Traits) { described.Store(name, t) }

// TraitsOf returns the traits of a kind by its name. A kind that decides by its definition has none of them.
func TraitsOf(name string) Traits {
	if name == journal.KindGo {
		return functions
	}
	if t, ok := described.Load(name); ok {
		return t.(Traits)
	}
	return Traits{}
}
