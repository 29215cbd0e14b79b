package engine

import (
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// CallOp says what a Call asks for.
type CallOp uint8

// The operations of a Call.
const (
	CallStart    CallOp = iota // Start → Started
	CallInput                  // Run, Input: an operation or a signal
	CallResult                 // Run, Waiter → Outcome, or the Waiter is told later; see Absent
	CallLeave                  // Run, Waiter: it no longer waits
	CallEntries                // Run, and Watcher where it wants to follow → Pieces, Folded, Closed
	CallUnwatch                // Run, Watcher
	CallFind                   // Name → Started.Run
	CallList                   // Query → Rows, Masked
	CallBody                   // Run, Inputs, Body: of its body
	CallConsult                // Run → Bodies.Consult
	CallBegin                  // Run, Step: its function is at hand
	CallFeed                   // Name, Wake → Seq: a consumer begins to read
	CallSeen                   // Name, Seq: it has seen the batches up to there → Err where its feed has lapsed
	CallUnfeed                 // Name: it stops reading
	CallDropFeed               // Name
)

// Call is one request to a partition and its answer. Who waits for the answer gets it through Done, once what it tells
// is durable.
type Call struct {
	Op      CallOp
	Run     core.RunID
	Step    core.StepID
	Input   core.Input
	Inputs  []core.Input
	Body    *Body // whose decisions are among the inputs; nil: none are
	Start   StartRequest
	Waiter  *Waiter
	Watcher *Watcher
	Name    string
	Wake    chan struct{} // told when there is more to read
	Seq     uint64
	Query   journal.Query

	Err     error
	Absent  bool // the run is not in memory: the view tells all there is to know about it
	Started Started
	Outcome Outcome
	Pieces  []Piece
	Folded  int  // how many entries the run in memory has; 0: it is not in memory
	Closed  bool // the run in memory has ended
	Rows    []journal.RunRow
	Masked  map[core.RunID]bool   // runs whose row in the view is older than what the partition knows
	Aside   map[core.RunID]string // runs that stand still though their row in the view does not say so, and why

	// Done is called once, by whoever drives the partition. It must not block; nil: nobody waits.
	Done func(*Call)

	workflow *workflow     // of Start.Definition; nil: the partition compiles it
	void     bool          // Err is that of a batch it waited for, which has failed
	ch       chan struct{} // of the engine's own calls
}

// op names the operation in errors.
func (c *Call) op() string {
	switch c.Op {
	case CallStart:
		return "start"
	case CallInput:
		if op, ok := c.Input.(core.Operation); ok {
			return op.Op.String()
		}
		return "event send"
	case CallList:
		return "list"
	case CallFind:
		return "find"
	case CallBody, CallConsult, CallBegin:
		return "body"
	case CallFeed, CallSeen, CallUnfeed, CallDropFeed:
		return "feed"
	default:
		return "read"
	}
}

// lost reports whether a call that only asks failed with the batch that was to answer it: then it may be asked once more. Of what
// was to be saved the caller has to know.
func (c *Call) lost() bool {
	switch c.Op {
	case CallResult, CallEntries, CallFind, CallList, CallFeed, CallDropFeed:
		return c.void
	default:
		return false
	}
}

// forget makes a call ready to be asked once more.
func (c *Call) forget() {
	c.Err, c.void, c.Absent, c.Started, c.Outcome = nil, false, false, Started{}, Outcome{}
	c.Pieces, c.Folded, c.Closed, c.Rows, c.Masked, c.Aside = nil, 0, false, nil, nil, nil
}

// note notes in a list why a run stands still.
func (c *Call) note(id core.RunID, a *aside) {
	if c.Aside == nil {
		c.Aside = make(map[core.RunID]string)
	}
	c.Aside[id] = a.Error()
}

// overlay adds rows of the view to rows that the partition knows better.
func (c *Call) overlay(rows, view []journal.RunRow) []journal.RunRow {
	for _, row := range view {
		if c.Masked[row.ID] {
			continue
		}
		if why, stands := c.Aside[row.ID]; stands && !row.Phase.Closed() {
			row.Message = why
		}
		rows = append(rows, row)
	}
	return rows
}

func (c *Call) answer() {
	if c.Done != nil {
		c.Done(c)
	}
}

// Piece is a part of a run's history: encoded entries, and the batches they are from.
type Piece struct {
	bytes []byte
	marks []mark
}

// mark says that the bytes before end, back to the mark before, are of one batch.
type mark struct {
	seq uint64
	end int
}

// Waiter waits for a run's outcome.
type Waiter struct {
	ch  chan waited
	run core.RunID // the run it waits for now, which moves on along a chain; the partition's
}

// waited is what a Waiter is told: the outcome, or to ask again because the partition has forgotten what it held.
type waited struct {
	outcome Outcome
	again   bool
	err     error
}

// NewWaiter returns a waiter for one CallResult.
func NewWaiter() *Waiter { return &Waiter{ch: make(chan waited, 1)} }

func (w *Waiter) tell(r waited) {
	select {
	case w.ch <- r:
	default: // told already
	}
}

// Ended returns the outcome if there is one by now.
func (w *Waiter) Ended() (Outcome, bool) {
	select {
	case r := <-w.ch:
		return r.outcome, r.err == nil && !r.again
	default:
		return Outcome{}, false
	}
}

// report is a worker's report, kept until what it did is durable.
type report struct {
	run core.RunID
	in  core.Input
}

// token returns the attempt a report is about, and whether the report ends the worker's hold on it.
func (r report) token() (core.Token, bool) {
	switch in := r.in.(type) {
	case core.TaskEnded:
		return core.Token{Run: r.run, Step: in.Step, Attempt: in.Attempt}, true
	case core.TaskStopped:
		return core.Token{Run: r.run, Step: in.Step, Attempt: in.Attempt}, true
	default:
		return core.Token{}, false
	}
}
