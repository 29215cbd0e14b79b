package engine

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Call is one request to a partition, and its answer. Each operation has a type of its own, such as StartCall, whose
// fields are the request. The answer comes when everything that it may be based on is durable.
type Call interface {
	// Answered returns the part of the answer that all calls have, and its receiver.
	Answered() *Reply
	// op names the operation in errors.
	op() string
	nature() nature
	// do carries out the call. It answers it at once, or makes the partition answer it later.
	do(p *Partition)
	// answer reports that the answer is ready.
	answer()
	// clear removes the answer, so that the call can be made again.
	clear()
}

// nature decides what a call does if the partition cannot save anything.
type nature uint8

const (
	// saves: its caller must learn that nothing was saved. While the journal takes no writes, the call is refused.
	saves nature = iota
	// repeats: if it failed because of the batch that it waited for, the driver makes it again.
	repeats
	// tells: neither of them. It waits until the journal takes writes again.
	tells
)

// Reply is common to all answers.
type Reply struct {
	Err error
	// Done is called once with Err, in the goroutine that drives the partition. It must not block. It may be nil.
	Done func(error)

	batchFailed bool          // Err is the error of the batch that the call waited for
	ch          chan struct{} // it receives a value if Done is nil; nil if nobody waits
}

func (r *Reply) Answered() *Reply { return r }

func (r *Reply) answer() {
	switch {
	case r.Done != nil:
		r.Done(r.Err)
	case r.ch != nil:
		r.ch <- struct{}{}
	}
}

// asked is a call whose answer is an A.
type asked[A any] struct {
	Reply
	Answer A
}

func (a *asked[A]) clear() {
	var none A
	a.Answer, a.Err, a.batchFailed = none, nil, false
}

// saving, repeating and telling are calls of that nature.
type (
	saving[A any]    struct{ asked[A] }
	repeating[A any] struct{ asked[A] }
	telling          struct{ asked[struct{}] }
)

func (*saving[A]) nature() nature    { return saves }
func (*repeating[A]) nature() nature { return repeats }
func (*telling) nature() nature      { return tells }

// mustRepeat reports whether a call must be made again, because the batch that it waited for has failed. A caller that
// wanted to save something must learn that this failed.
func mustRepeat(c Call) bool { return c.nature() == repeats && c.Answered().batchFailed }

// spares keeps answered calls of one type, to be used again. A caller that gives up does not put its call back, because
// the loop may still answer it.
type spares[T any, C interface {
	*T
	Call
}] struct{ pool sync.Pool }

func (s *spares[T, C]) get() C {
	if c, ok := s.pool.Get().(C); ok {
		return c
	}
	return new(T)
}

func (s *spares[T, C]) put(c C) {
	var empty T
	ch := c.Answered().ch
	*c = empty
	c.Answered().ch = ch
	s.pool.Put(c)
}

// Piece is a part of a run's history: encoded entries, with marks that show the batch of each entry.
type Piece struct {
	bytes []byte
	marks []mark
	large []journal.Large // the large ones among them
}

// mark means that the bytes from the end of the previous mark to end are from one batch.
type mark struct {
	seq uint64
	end int
}

// Waiter waits for a run's outcome.
type Waiter struct {
	ch  chan waited
	run core.RunID // the run that it waits for, later the next one of the chain; only the partition uses it
}

// waited is the answer to a Waiter: the outcome, an error, or the request to ask again because the partition forgot its
// memory.
type waited struct {
	outcome Outcome
	again   bool
	err     error
}

// NewWaiter returns a waiter for one ResultCall.
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

// token returns the attempt of a report, and whether the report means that the worker's task is over.
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
	call   Call       // nil if it is something else
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

// close refuses further requests. The earlier requests stay.
func (q *requestQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
}
