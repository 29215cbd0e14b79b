package engine

import "sync"

// item is one thing that happens to a partition. One of the fields is set. If none is, the item means that all waiting
// attempts must be looked at again; see Engine.Rematch.
type item struct {
	call   *Call
	rep    report    // a worker's report
	match  *queueKey // a slot may be free for this task queue
	expect bool      // messages of other partitions may have come
}

// inbox passes items from many goroutines to the loop. The loop takes all of them at once.
type inbox struct {
	mu     sync.Mutex
	items  []item
	closed bool
	ready  chan struct{} // holds a value while there may be items
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

// put adds an item. It returns false if the inbox is closed.
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

// take returns the items. The inbox then uses the given slice, so that its memory is reused.
func (b *inbox) take(empty []item) []item {
	b.mu.Lock()
	items := b.items
	b.items = empty[:0]
	b.mu.Unlock()
	return items
}

// close refuses further items. The items that came before stay.
func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
}
