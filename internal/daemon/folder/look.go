package folder

import (
	"sync"
	"sync/atomic"
)

// fewFlows is how many flows each caller looks at itself: that takes less time than to wait for somebody else.
const fewFlows = 20

// look is one look at all files of a folder.
type look struct {
	over  chan struct{}
	flows []readFlow
}

// looks are those at one folder.
type looks struct {
	few   atomic.Bool // the last one has found few flows
	mu    sync.Mutex
	going *look // the last one that has begun; nil: none has
	next  *look // the one that has not; nil: nobody waits for one
}

// share returns the result of a look that begins after the call. Where there are many flows, all who call before it
// begins share it: a start by name asks the system for every file, and a thousand starts a second would do so for each.
func (l *looks) share(read func() []readFlow) []readFlow {
	if l.few.Load() {
		flows := read()
		l.few.Store(len(flows) <= fewFlows)
		return flows
	}
	l.mu.Lock()
	own, before := l.next, l.going
	if own != nil {
		l.mu.Unlock()
		<-own.over
		return own.flows
	}
	own = &look{over: make(chan struct{})}
	l.next = own
	l.mu.Unlock()
	defer close(own.over)
	if before != nil {
		<-before.over
	}
	l.mu.Lock()
	l.going, l.next = own, nil // a file may have changed before the next call
	l.mu.Unlock()
	own.flows = read()
	l.few.Store(len(own.flows) <= fewFlows)
	return own.flows
}
