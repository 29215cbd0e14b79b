package body

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/pawl-dev/pawl/internal/core"
)

// Shell provides a host's timers and goroutines: those of the process, or the simulation's in virtual time.
type Shell interface {
	// AfterFunc calls f once, after d. A simulation wants to know whose timer it is, and which.
	AfterFunc(run core.RunID, t Timer, d time.Duration, f func()) Alarm
	// Go begins to call f in a new goroutine, for a branch of the run's body.
	Go(run core.RunID, f func()) Goroutine
	// Stacks returns the stacks of goroutines, for people.
	Stacks(of []Goroutine) string
}

// Alarm is a timer that Shell.AfterFunc has set. Its methods are those of time.Timer.
type Alarm interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// Goroutine executes a branch.
type Goroutine interface {
	// Park blocks the goroutine, which calls it, until Unpark is called, which may come first.
	Park()
	Unpark()
	// Exit ends the goroutine, which calls it, and runs its deferred functions.
	Exit()
	// Own reports whether it is the calling goroutine. It may report true without looking.
	Own() bool
}

// process is the shell of a real program.
type process struct {
	mu     sync.Mutex
	idle   []chan branchCall
	closed bool
}

// branchCall is a branch to execute.
type branchCall struct {
	g *goroutine
	f func()
}

// looksAtOneOf is how many calls of a goroutine are known by an address of its stack, until its number is compared
// again. When a stack moves, another goroutine may get the memory in which it was.
const looksAtOneOf = 256

// keepIdle is how many goroutines without a branch are kept for others at most. A new one has to be made, its stack to
// grow, and its number to be found.
const keepIdle = 1024

func (*process) AfterFunc(_ core.RunID, _ Timer, d time.Duration, f func()) Alarm {
	return time.AfterFunc(d, f)
}

func (p *process) Go(_ core.RunID, f func()) Goroutine {
	call := branchCall{&goroutine{process: p, unparked: make(chan struct{}, 1)}, f}
	p.mu.Lock()
	last := len(p.idle) - 1
	if last < 0 {
		p.mu.Unlock()
		go work(p, call)
		return call.g
	}
	next := p.idle[last]
	p.idle = p.idle[:last]
	p.mu.Unlock()
	next <- call
	return call.g
}

// work executes a branch, and those that follow it in this goroutine. A branch that has to leave ends the goroutine.
func work(p *process, call branchCall) {
	by := &caller{number: goroutineID()}
	next := make(chan branchCall, 1)
	for ok := true; ok; call, ok = <-next {
		call.g.by.Store(by)
		call.f()
		call.g.by.Store(nil)
		call = branchCall{} // the call may refer to large values
		if !p.wait(next) {
			return
		}
	}
}

// wait lists a goroutine as idle. It reports false if there are enough of them.
func (p *process) wait(next chan branchCall) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) == keepIdle {
		return false
	}
	p.idle = append(p.idle, next)
	return true
}

// close ends the idle goroutines now, and the others when they become idle.
func (p *process) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, next := range p.idle {
		close(next)
	}
	p.idle = nil
}

// Stacks finds the goroutines among all, by their numbers.
func (*process) Stacks(of []Goroutine) string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var out []byte
	for part := range bytes.SplitSeq(buf, []byte("\n\n")) {
		for _, g := range of {
			by := g.(*goroutine).by.Load()
			if by != nil && bytes.HasPrefix(part, []byte("goroutine "+by.number+" ")) {
				out = append(append(out, part...), '\n')
			}
		}
	}
	return string(out)
}

type goroutine struct {
	process  *process
	by       atomic.Pointer[caller] // the one that executes the branch: from its begin until it has returned
	unparked chan struct{}
}

func (g *goroutine) Park()   { <-g.unparked }
func (g *goroutine) Unpark() { g.unparked <- struct{}{} }
func (g *goroutine) Exit()   { runtime.Goexit() }

// Own finds the calling goroutine by its number, which takes microseconds, and where it calls from the same place of
// its stack again, by that.
func (g *goroutine) Own() bool {
	var here byte
	by := g.by.Load()
	return by != nil && by.calls(uintptr(unsafe.Pointer(&here)))
}

// caller is a goroutine that executes branches.
type caller struct {
	number string            // its number, as stacks show it
	known  [8]atomic.Uintptr // addresses in its stack from which it has called
	asked  atomic.Uint32     // questions that an address has answered
}

// calls reports whether the caller is the goroutine that calls, which has a variable of its stack at an address.
func (c *caller) calls(at uintptr) bool {
	known := &c.known[at/64%uintptr(len(c.known))]
	if known.Load() == at && c.asked.Add(1)%looksAtOneOf != 0 {
		return true
	}
	own := goroutineID() == c.number
	if own {
		known.Store(at)
	} else {
		known.CompareAndSwap(at, 0)
	}
	return own
}

// goroutineID returns the number of the calling goroutine, as stacks show it.
func goroutineID() string {
	var buf [64]byte
	head, _, _ := bytes.Cut(bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine ")), []byte(" "))
	return string(head)
}
