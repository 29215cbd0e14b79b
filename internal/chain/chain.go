// Package chain is the door through which package dialect/temporal gives a workflow in Go what only Temporal has: run
// after run within one chain, by a cron expression. Everybody else has schedules.
package chain

import "github.com/pawl-dev/pawl/internal/cron"

var option func(cron.Written) any

// Register tells how the option is made. Package pawl does so before any other code runs.
func Register(o func(cron.Written) any) { option = o }

// Option returns the option of a workflow, a pawl.Option.
func Option(w cron.Written) any { return option(w) }
