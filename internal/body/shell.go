package body

import (
	"bytes"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// Shell is where a host's timers and goroutines come from: those of the process, or the simulation's in virtual time.
type Shell interface {
	// AfterFunc calls f once, after d. A simulation wants to know whose timer it is, and which.
	AfterFunc(run core.RunID, t Timer, d time.Duration, f func()) Alarm
	// Go begins to call f in a goroutine of its own, for a branch of the run's body.
	Go(run core.RunID, f func()) Goroutine
	// Stacks returns the stacks of goroutines, for people.
	Stacks(of []Goroutine) string
}

// Alarm is a timer that Shell.AfterFunc has set. Its methods are those of time.Timer.
type Alarm interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// Goroutine is what executes a branch.
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
	calls atomic.Uint64 // questions of Own

	mu     sync.Mutex
	idle   []chan branchCall
	closed bool
}

// branchCall is a branch to execute.
type branchCall struct {
	g *goroutine
	f func()
}

// Own takes microseconds to find the number of the goroutine that calls. So it does that at the first calls, as those
// of a test are, and then at one of so many: code that calls from the goroutine of another branch does so again and
// again.
const (
	looksAtFirst = 1000
	looksAtOneOf = 256
)

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
// It is the function that each goroutine of a branch begins with, which atWork looks for.
func work(p *process, call branchCall) {
	var id any = goroutineID()
	next := make(chan branchCall, 1)
	for ok := true; ok; call, ok = <-next {
		call.g.id.Store(id)
		call.f()
		call.g.id.Store("")
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
			id, begun := g.(*goroutine).id.Load().(string)
			if begun && bytes.HasPrefix(part, []byte("goroutine "+id+" ")) {
				out = append(append(out, part...), '\n')
			}
		}
	}
	return string(out)
}

type goroutine struct {
	process  *process
	id       atomic.Value // the number of the goroutine, once the branch has begun; "" when it has returned
	unparked chan struct{}
}

func (g *goroutine) Park()   { <-g.unparked }
func (g *goroutine) Unpark() { g.unparked <- struct{}{} }
func (g *goroutine) Exit()   { runtime.Goexit() }

// Own finds each call of a goroutine that is none of a branch. One that is another branch's is found by its number.
func (g *goroutine) Own() bool {
	if !atWork() {
		return false
	}
	if n := g.process.calls.Add(1); n > looksAtFirst && n%looksAtOneOf != 0 {
		return true
	}
	id, begun := g.id.Load().(string)
	return !begun || id == goroutineID()
}

// workEntry is the address of work.
var workEntry = reflect.ValueOf(work).Pointer()

// atWork reports whether the calling goroutine began with work, which is at the bottom of its stack, below goexit.
func atWork() bool {
	var most [64]uintptr
	stack := most[:]
	n := runtime.Callers(2, stack)
	for n == len(stack) {
		stack = make([]uintptr, 2*len(stack))
		n = runtime.Callers(2, stack)
	}
	return n > 1 && runtime.FuncForPC(stack[n-2]-1).Entry() == workEntry
}

// goroutineID returns the number of the calling goroutine, as stacks show it.
func goroutineID() string {
	var buf [64]byte
	head, _, _ := bytes.Cut(bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine ")), []byte(" "))
	return string(head)
}
