package engine

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/internal/journal"
)

// CallOp says what a Call asks for.
type CallOp uint8

// The operations of a Call. The fields before the arrow are the request, those after it are the answer.
const (
	CallStart     CallOp = iota // Start → Started
	CallInput                   // Run, Input: applies an operation or an event
	CallResult                  // Run, Waiter → Outcome, or the Waiter is told later; see Absent
	CallLeave                   // Waiter: stops waiting
	CallEntries                 // Run, Watcher (nil: only reads) → Pieces, Folded, Closed
	CallUnwatch                 // Run, Watcher: stops watching
	CallFind                    // Name → Started.Run
	CallList                    // Query → Rows, Masked, Aside
	CallBody                    // Run, Inputs, Body: applies what the run's body and its tasks report
	CallConsult                 // Run: calls Bodies.Consult with all that the body must know
	CallBegin                   // Run, Step: the step's function can be called now
	CallFeed                    // Name, Wake → Seq: a consumer of a feed begins to read
	CallBeginFeed               // Name: makes a feed that nobody reads yet
	CallSeen                    // Name, Seq: the consumer has seen all batches up to Seq → Err if its feed has lapsed
	CallUnfeed                  // Name: the consumer stops reading
	CallDropFeed                // Name: forgets the feed
	CallLive                    // → Live
	CallAttempt                 // Run, Step, Attempt → State
	CallQueues                  // → Queues
	CallUpdate                  // Run, Name, UpdateID → Update; see Absent
)

// Call is one request to a partition, and its answer. The answer comes through Done when everything that it may be
// based on is durable.
type Call struct {
	Op      CallOp
	Run     core.RunID
	Step    core.StepID
	Attempt int
	Input   core.Input
	Inputs  []core.Input
	Body    *Body // the body that made the decisions among Inputs; nil: there are none
	Start   StartRequest
	Waiter  *Waiter
	Watcher *Watcher
	Name    string
	// UpdateID is the id of the update of that name.
	UpdateID string
	Wake     chan struct{} // receives a value when there is more to read
	Seq      uint64
	Query    journal.Query

	Err     error
	Absent  bool // the run is not in memory, so the view has everything about it
	Started Started
	Outcome Outcome
	Pieces  []Piece
	Folded  int  // how many entries the run in memory has; 0: the run is not in memory
	Closed  bool // the run in memory has ended
	Live    int  // attempts that have a slot of a worker
	State   AttemptState
	Queues  []QueueStats
	Update  UpdateState
	Rows    []journal.RunRow
	Masked  map[core.RunID]bool   // runs whose row in the view is out of date; Rows has the current one
	Aside   map[core.RunID]string // why a run is set aside, if its row in the view does not say it

	// Done is called once, in the goroutine that drives the partition. It must not block. It may be nil.
	Done func(*Call)

	workflow    *workflow     // the workflow of Start.Definition; nil: the partition compiles it
	batchFailed bool          // Err is the error of the batch that the call waited for
	ch          chan struct{} // Engine.do waits on it
	taken       func(error)   // it receives the answer, for Engine.Do
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
	case CallBody:
		if c.Body == nil {
			return "report"
		}
		return "body"
	case CallConsult, CallBegin:
		return "body"
	case CallFeed, CallBeginFeed, CallSeen, CallUnfeed, CallDropFeed:
		return "feed"
	default:
		return "read"
	}
}

// canRepeat reports whether a call only reads, and failed because of the batch that it waited for. Then the engine
// makes the call again. A caller that wanted to save something must learn that this failed.
func (c *Call) canRepeat() bool {
	switch c.Op {
	case CallResult, CallEntries, CallFind, CallList, CallFeed, CallBeginFeed, CallDropFeed,
		CallLive, CallAttempt, CallQueues, CallUpdate:
		return c.batchFailed
	default:
		return false
	}
}

// clearAnswer makes a call ready to be made again.
func (c *Call) clearAnswer() {
	c.Err, c.batchFailed, c.Absent, c.Started, c.Outcome = nil, false, false, Started{}, Outcome{}
	c.Pieces, c.Folded, c.Closed, c.Rows, c.Masked, c.Aside = nil, 0, false, nil, nil, nil
	c.State, c.Queues, c.Update = AttemptState{}, nil, UpdateState{}
}

// note adds to the answer of a list why a run is set aside.
func (c *Call) note(id core.RunID, a *aside) {
	if c.Aside == nil {
		c.Aside = make(map[core.RunID]string)
	}
	c.Aside[id] = a.Error()
}

// overlay returns the rows of a list: those that the partition answered, and those of the view that are up to date.
func (c *Call) overlay(rows, view []journal.RunRow) []journal.RunRow {
	for _, row := range view {
		if c.Masked[row.ID] {
			continue
		}
		if why, aside := c.Aside[row.ID]; aside && !row.Phase.Closed() {
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

// Piece is a part of a run's history: encoded entries, with marks that say which batch each entry is from.
type Piece struct {
	bytes []byte
	marks []mark
	large []journal.Large // the large ones among them
}

// mark says that the bytes from the end of the previous mark to end are from one batch.
type mark struct {
	seq uint64
	end int
}

// Waiter waits for a run's outcome.
type Waiter struct {
	ch  chan waited
	run core.RunID // the run that it waits for, later the next one of the chain; only the partition uses it
}

// waited is what a Waiter is told: the outcome, an error, or to ask again because the partition forgot its memory.
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
	default: // it was told before
	}
}

// Ended returns the outcome if the run has ended.
func (w *Waiter) Ended() (Outcome, bool) {
	select {
	case r := <-w.ch:
		return r.outcome, r.err == nil && !r.again
	default:
		return Outcome{}, false
	}
}

// report is a worker's report. It is kept until its entry is durable.
type report struct {
	run core.RunID
	in  core.Input
}

// token returns the attempt that a report is about, and whether the report says that the worker's task is over.
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

// request is one thing that happens to a partition. One of the fields is set. If none is, the request means that all
// waiting attempts must be looked at again; see Engine.Rematch.
type request struct {
	call   *Call
	rep    report     // a worker's report
	match  *slots.Key // a slot may be free for this task queue
	expect bool       // messages of other partitions may have come
}

// requestQueue passes requests from many goroutines to the loop. The loop takes all of them at once.
type requestQueue struct {
	mu       sync.Mutex
	requests []request
	closed   bool
	ready    chan struct{} // holds a value while there may be requests
}

func newRequestQueue() *requestQueue { return &requestQueue{ready: make(chan struct{}, 1)} }

// put adds a request. It returns false if the queue is closed.
func (q *requestQueue) put(r request) bool {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	q.requests = append(q.requests, r)
	first := len(q.requests) == 1
	q.mu.Unlock()
	if first {
		select {
		case q.ready <- struct{}{}:
		default:
		}
	}
	return true
}

// take returns the requests. The queue then uses the given slice, so that its memory is reused.
func (q *requestQueue) take(empty []request) []request {
	q.mu.Lock()
	requests := q.requests
	q.requests = empty[:0]
	q.mu.Unlock()
	return requests
}

// close refuses further requests. The requests that came before stay.
func (q *requestQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
}
