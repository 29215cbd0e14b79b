// Package option is the door through which packages of this module make options of package pawl that programs do not
// make themselves: what only Temporal's workflows have, documents in the place of functions, and policies that were
// read as a whole.
package option

import (
	"github.com/pawl-dev/pawl/internal/cron"
	"github.com/pawl-dev/pawl/policy"
)

// Makers make the options.
type Makers struct {
	Cron     func(w cron.Written) any             // a pawl.Option: one run after another within a chain
	Document func(document any, err error) any    // a pawl.Option: a *kind.Foreign in the place of the function
	Several  func(options any, err error) any     // a pawl.Option of a []pawl.Option
	Policy   func(p policy.Policy, err error) any // a pawl.StepOption: all limits and the retry policy
}

var makers Makers

// Register sets the functions that make the options. Package pawl does so before any other code runs.
func Register(m Makers) { makers = m }

// Cron returns the option of a workflow, a pawl.Option, that starts run after run within one chain. Everybody but
// Temporal has schedules.
func Cron(w cron.Written) any { return makers.Cron(w) }

// Document returns the option, a pawl.Option, that makes a workflow from a document, a *kind.Foreign, instead of a
// function. err is the error of the document.
func Document(document any, err error) any { return makers.Document(document, err) }

// Several returns several options, a []pawl.Option, as one. err is their error.
func Several(options any, err error) any { return makers.Several(options, err) }

// Policy returns the option of a step, a pawl.StepOption, that sets its whole policy. Options after it in the list
// replace a part of it. err is the error of the policy.
func Policy(p policy.Policy, err error) any { return makers.Policy(p, err) }
