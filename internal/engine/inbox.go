package engine

import "sync"

// item is one thing in the inbox: a call, a worker's report, a task queue for which a slot may be free, that messages may have
// come from other partitions, or none of them:
// all queues are to be looked at again.
type item struct {
	call   *Call
	rep    report
	match  *queueKey
	expect bool // messages from other partitions may have come
}

// inbox passes items from many goroutines to the loop, which takes all there are at once.
type inbox struct {
	mu     sync.Mutex
	items  []item
	closed bool
	ready  chan struct{} // holds a token while there may be items
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

// put adds an item and reports whether the inbox is open still.
func (b *inbox) put(it item) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.items = append(b.items, it)
	first := len(b.items) == 1
	b.mu.Unlock()
	if first {
		select {
		case b.ready <- struct{}{}:
		default:
		}
	}
	return true
}

// take swaps the items for an empty slice.
func (b *inbox) take(empty []item) []item {
	b.mu.Lock()
	items := b.items
	b.items = empty[:0]
	b.mu.Unlock()
	return items
}

// close refuses further items; those that are in stay.
func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
}
