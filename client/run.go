package client

import (
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// Outcome is how a run ended.
type Outcome struct {
	ID      string // the id of the chain's last run
	Phase   Phase  // succeeded, failed, timed_out, cancelled or terminated
	Output  []byte // encoded
	Failure *policy.Failure
}

// Description is the present state of a run. pawl.Client.Explain has more: every attempt, and where deadlines were set.
type Description struct {
	Summary
	Input   []byte
	Output  []byte
	Failure *policy.Failure
	Headers map[string]string
	State   []byte    // the value that it published last; see pawl.State
	StateAt time.Time // when it did; zero if it published nothing
	Steps   []StepDescription
}

// Summary is a run in a list.
type Summary struct {
	ID, Workflow, WorkflowID string
	Phase                    Phase
	CreatedAt, EndedAt       time.Time
	Deadline                 time.Time // the earlier of the run's two deadlines
	Labels                   map[string]string
	Held                     string // the limit of its queue that holds the run, in a sentence; empty: none does
	// Problem says why an open run cannot go on until somebody acts: its code has changed or is not here, or reading it
	// failed. Empty if it can.
	Problem string
}

// StepDescription is the present state of a step.
type StepDescription struct {
	Name      string
	Phase     Phase
	Reason    policy.Reason // why it was not tried again
	Attempts  int           // number of attempts that count
	Scheduled time.Time
	Ended     time.Time
	Next      time.Time // the next attempt, or the end of a sleep or a wait
	Deadline  time.Time // stored: the earlier one of scheduleToClose and deadline
	Output    []byte
	Failure   *policy.Failure
}

// Query selects runs.
type Query struct {
	Workflow, WorkflowID string
	Phases               []Phase           // the phases of the runs; empty: all
	Labels               map[string]string // the runs that have all of them
	// CreatedFrom and CreatedBefore bound when the runs were created: from ≤ created < before. Zero: no bound.
	CreatedFrom, CreatedBefore time.Time
	Stuck                      bool   // only open runs that have a problem
	Parent                     string // the child runs that this run's steps started
	Top                        bool   // no child runs
	// DeadlineWithin selects open runs whose deadline is due within this time or has passed; WillMiss those that will
	// miss theirs at the pace of their workflow. Of both, the runs with the soonest deadlines come first.
	DeadlineWithin time.Duration
	WillMiss       bool
	Retrying       bool // open runs of which a step backs off or is tried again
	// Input selects runs by values in their inputs: by the path of a value, customer.id, what it is. It is read run by
	// run, so it is slow in a large database; labels are not.
	Input map[string]string
	After string // run id: the last of the page before
	Limit int    // default 50
}
