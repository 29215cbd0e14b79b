package engine

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/engine/slots"
)

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
