// Package systems lists the other workflow systems whose documents and policies Pawl reads. Each is a row of All: how
// its documents become flows, how its policies are read, and which words it has for runs, steps and events.
package systems

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/aether"
	"github.com/pawl-dev/pawl/dialect/steep"
	"github.com/pawl-dev/pawl/dialect/stevora"
	"github.com/pawl-dev/pawl/dialect/temporal/temporalform"
	"github.com/pawl-dev/pawl/dialect/zart/zartform"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// System is one of them.
type System struct {
	Name  string // the word before a path, as in steep:workflow.yaml
	Title string // the name for people
	// Policy reads the policy of one step. What its form does not allow is a [*decode.Error].
	Policy func(v any) (policy.Policy, error)
	// Convert makes flows of a document; nil: its policies stand in flow files, below the system's name.
	Convert func(Files) (*dialect.Conversion, error)
	// Needs is the kind of files without which a document cannot be converted.
	Needs Need

	Run   func(RunTree) Words
	Step  func(*core.Step) Words
	Event func(core.Event) string // nil: it has no words for events
	// Message returns the type of a webhook's message about an event of a run that Event has named; "" if it is Pawl's.
	// Messages are all of these types. nil: the types are Pawl's.
	Message  func(event string) string
	Messages []string
}

// Need is a kind of further files of a document.
type Need int

// The kinds of files.
const (
	None     Need = iota
	Handlers      // one file that says what steps run
	Services      // files of services, and of macros
)

// Files are a document with the further files that it needs.
type Files struct {
	Document         SourceFile
	Handlers         SourceFile
	Services, Macros []SourceFile
}

// SourceFile is the text of a file, with its name for errors.
type SourceFile struct {
	Name string
	Text []byte
}

// RunTree is a run of a flow that was made from a document, with its child runs.
type RunTree = steep.Told

// Words are a system's own words for a state.
type Words struct {
	Status, Message string
	Retries         *int // nil: it does not count them
}

// All are the systems, by name.
var All = []*System{
	{
		Name: "aether", Title: "Aether", Policy: aether.Policy, Needs: Handlers,
		Convert: func(f Files) (*dialect.Conversion, error) {
			return aether.Convert(aether.Source(f.Document), aether.Source(f.Handlers))
		},
		Run: func(r RunTree) Words { return Words{Status: aether.Status(r.Run)} },
		Step: func(s *core.Step) Words {
			retries := aether.Retries(s)
			return Words{Status: aether.TaskPhase(s), Retries: &retries}
		},
	},
	{
		Name: "steep", Title: "Steep", Policy: steep.Policy, Needs: Services,
		Convert: func(f Files) (*dialect.Conversion, error) {
			in := steep.Sources{Workflow: steep.Source(f.Document)}
			for _, file := range f.Services {
				in.Services = append(in.Services, steep.Source(file))
			}
			for _, file := range f.Macros {
				in.Macros = append(in.Macros, steep.Source(file))
			}
			return steep.Convert(in)
		},
		Run: func(r RunTree) Words {
			status, message := steep.Status(r)
			return Words{Status: status, Message: message}
		},
		Step: func(s *core.Step) Words { return Words{Status: steep.StepStatus(s)} },
	},
	{
		Name: "stevora", Title: "Stevora", Policy: stevora.Policy, Needs: Handlers,
		Convert: func(f Files) (*dialect.Conversion, error) {
			return stevora.Convert(stevora.Source(f.Document), stevora.Source(f.Handlers))
		},
		Run: func(r RunTree) Words {
			return Words{Status: stevora.Status(r.Phase.String()), Message: stevora.Message(r.Run)}
		},
		Step:  func(s *core.Step) Words { return Words{Status: stevora.StepStatus(s.Phase.String())} },
		Event: func(e core.Event) string { return stevora.Event(e.Type, e.Name, e.Attempt, e.Failure != nil) },

		Message: stevora.MessageType, Messages: stevora.MessageTypes,
	},
	{
		Name: "temporal", Title: "Temporal", Policy: temporalform.Policy,
		Run: func(r RunTree) Words { return Words{Status: temporalform.Status(r.Run)} },
		// The message is the timeout that ended an activity, and the state of its retries.
		Step: func(s *core.Step) Words {
			message := strings.TrimSpace(temporalform.TimeoutType(s) + " " + temporalform.RetryState(s))
			return Words{Status: temporalform.StepStatus(s), Message: message}
		},
	},
	{
		Name: "zart", Title: "Zart", Policy: zartform.Policy,
		Run:  func(r RunTree) Words { return Words{Status: zartform.Status(r.Run)} },
		Step: func(s *core.Step) Words { return Words{Status: zartform.StepStatus(s)} },
	},
}

// Of returns the system with a name, or nil.
func Of(name string) *System {
	i := slices.IndexFunc(All, func(s *System) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return All[i]
}

// Names returns the names of all systems.
func Names() []string {
	names := make([]string, len(All))
	for i, s := range All {
		names[i] = s.Name
	}
	return names
}
