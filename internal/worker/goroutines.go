package worker

import "sync"

// goroutines execute attempts, one after the other. A goroutine that has executed one waits for the next: a new one
// would have to be made, and its stack to grow, each time. A goroutine that waits is free, so no attempt waits for
// another one.
type goroutines struct {
	mu     sync.Mutex
	idle   []chan *attempt
	closed bool
}

// keepIdle is how many goroutines wait for work at most.
const keepIdle = 1024

// execute executes an attempt in a new goroutine.
func (g *goroutines) execute(a *attempt) {
	g.mu.Lock()
	last := len(g.idle) - 1
	if last < 0 {
		g.mu.Unlock()
		go g.work(a)
		return
	}
	next := g.idle[last]
	g.idle = g.idle[:last]
	g.mu.Unlock()
	next <- a
}

// work executes an attempt, and those that follow.
func (g *goroutines) work(a *attempt) {
	var next chan *attempt
	for a != nil {
		a.execute()
		if next == nil { // the first attempt may take long, and needs no place for the next one
			next = make(chan *attempt, 1)
		}
		if !g.wait(next) {
			return
		}
		a = <-next
	}
}

// wait lists a goroutine as idle. It reports false if there are enough of them.
func (g *goroutines) wait(next chan *attempt) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || len(g.idle) == keepIdle {
		return false
	}
	g.idle = append(g.idle, next)
	return true
}

// close ends the idle goroutines now, and the others when they become idle.
func (g *goroutines) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, next := range g.idle {
		close(next)
	}
	g.idle = nil
}
