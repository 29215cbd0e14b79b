package kind

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Traits are the properties of a kind of workflows that are needed by processes which do not carry its runs on.
type Traits struct {
	// Body: a function decides what its runs do. It can be called again with the history of a run, to see whether the
	// code still fits.
	Body bool
	// Coded: the values of its runs are encoded with the codec of their program. Else they are JSON.
	Coded bool
	// Served: programs serve its workflows to a server, which leases them the runs.
	Served bool
	// Shown is the definition for showing runs: the steps are known from the runs. nil: the stored definition lists the
	// steps.
	Shown *core.Definition
}

// functions are the traits of Go functions.
var functions = Traits{Body: true, Coded: true, Served: true, Shown: &core.Definition{HasBody: true}}

// described are the traits that packages have registered, by the name of the kind.
var described sync.Map

// Describe registers the traits of a kind. The package that has the kind calls it when it is initialised.
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
