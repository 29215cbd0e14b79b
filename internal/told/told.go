// Package told connects package client with package pawl: the requests and answers of callers are converted from and to
// the engine's types, so that inner types are in no signature that programs see.
package told

import (
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// Words are the types of package client.
type Words struct {
	Explain  func(r *api.Run) any       // a *client.Explanation
	Event    func(ev *api.Event) any    // a client.HistoryEvent
	Schedule func(s schedule.Spec) any  // a client.Schedule
	Spec     func(of any) schedule.Spec // a client.Schedule in the words of the inside
}

var words Words

// Register sets the functions that convert them. Package client does so before any other code runs.
func Register(w Words) { words = w }

// Explain makes a *client.Explanation.
func Explain(r *api.Run) any { return words.Explain(r) }

// Event makes a client.HistoryEvent.
func Event(ev *api.Event) any { return words.Event(ev) }

// Schedule makes a client.Schedule.
func Schedule(s schedule.Spec) any { return words.Schedule(s) }

// Spec returns the spec of a client.Schedule.
func Spec(of any) schedule.Spec { return words.Spec(of) }
