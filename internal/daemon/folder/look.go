package folder

import "sync"

// look is one look at all files of a folder.
type look struct {
	over  chan struct{}
	flows []readFlow
}

// looks are those at one folder.
type looks struct {
	mu    sync.Mutex
	going *look // the last one that has begun; nil: none has
	next  *look // the one that has not; nil: nobody waits for one
}

// share returns the result of a look that begins after the call. All who call before it begins share it: a start by
// name asks the system for every file, and a thousand starts a second would do so for each.
func (l *looks) share(read func() []readFlow) []readFlow {
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
	return own.flows
}
