// Package told is the door between package client and package pawl: what callers say and are told of is made of what an
// engine takes and tells, so that the types of the inside are in no signature that programs see.
package told

import (
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// Words are those of package client.
type Words struct {
	Explain  func(r *api.Run) any       // a *client.Explanation
	Event    func(ev *api.Event) any    // a client.HistoryEvent
	Schedule func(s schedule.Spec) any  // a client.Schedule
	Spec     func(of any) schedule.Spec // a client.Schedule in the words of the inside
}

var words Words

// Register tells how they are made. Package client does so before any other code runs.
func Register(w Words) { words = w }

// Explain makes a *client.Explanation.
func Explain(r *api.Run) any { return words.Explain(r) }

// Event makes a client.HistoryEvent.
func Event(ev *api.Event) any { return words.Event(ev) }

// Schedule makes a client.Schedule.
func Schedule(s schedule.Spec) any { return words.Schedule(s) }

// Spec returns what a client.Schedule says.
func Spec(of any) schedule.Spec { return words.Spec(of) }
