package worker

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"strconv"
	"sync"
	"time"
)

// guardIdle is how long a guard stays although no process runs. A flow often starts the next one soon.
const guardIdle = 5 * time.Second

// processGuard is a small process that ends the processes of attempts if this process dies without doing that itself,
// as after SIGKILL. It is a shell that reads from a pipe which processes run. Only this process has the other end of
// the pipe, so the shell notices the death of this process whatever caused it.
//
// The guard is not necessary for correctness: the next engine ends what is left before it makes another attempt. It is
// there so that nothing goes on when no next engine is started.
type processGuard struct {
	mark string // the value of PAWL_OWNER that processes of this life of the worker have
	log  *slog.Logger

	mu     sync.Mutex
	shell  *guardShell  // nil: it does not run
	groups map[int]bool // process groups that run
	open   int          // attempts whose processes run or are being started
	idle   *time.Timer  // ends the shell; set while open is 0
	failed bool         // it could not be started, which is not tried again
}

// newGuard returns a guard that starts with the first process. The mark is the owner's with a part of its own, so that
// the guard of a killed worker never ends the processes of the next one.
func newGuard(owner string, log *slog.Logger) *processGuard {
	life := make([]byte, 8)
	_, _ = rand.Read(life) // never fails
	return &processGuard{mark: owner + "." + hex.EncodeToString(life), log: log, groups: map[int]bool{}}
}

// begin tells the guard that a process is about to start. Call end once, whatever comes of it.
func (g *processGuard) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open++
	if g.idle != nil {
		g.idle.Stop()
		g.idle = nil
	}
	g.tell("begin")
}

// started tells the guard the group of a process that was started.
func (g *processGuard) started(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[group] = true
	g.tell("group " + strconv.Itoa(group))
}

// end tells the guard that the processes of an attempt are gone. group is 0 if none was started.
func (g *processGuard) end(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, group)
	g.open--
	if group == 0 {
		g.tell("failed")
	} else {
		g.tell("end " + strconv.Itoa(group))
	}
	if g.open == 0 && g.shell != nil {
		g.idle = time.AfterFunc(guardIdle, g.rest)
	}
}

// rest ends the shell if nothing runs.
func (g *processGuard) rest() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open > 0 || g.shell == nil {
		return
	}
	g.shell.close()
	g.shell, g.idle = nil, nil
}

// tell writes a line to the shell. A shell that does not run, or that somebody ended, is started with all that runs.
func (g *processGuard) tell(line string) {
	if g.failed {
		return
	}
	if g.shell != nil && g.shell.tell(line) == nil {
		return
	}
	if g.shell != nil {
		g.shell.close()
		g.shell = nil
	}
	if g.open == 0 {
		return
	}
	shell, err := startGuardShell(g.mark)
	if err != nil {
		g.failed = true
		g.log.Warn("processes of steps may outlive this one if it is killed", "error", err)
		return
	}
	g.shell = shell
	for range g.open {
		_ = shell.tell("begin") // a shell that is gone again is noticed at the next line
	}
	for group := range g.groups {
		_ = shell.tell("group " + strconv.Itoa(group))
	}
}
