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
// as after SIGKILL. It is a shell that waits for the end of a pipe. Only this process has the other end of the pipe, so
// the shell notices the death of this process whatever caused it. It then reads from a file that both have open which
// processes run: a message for each process would cost the shell more than many a process takes.
//
// The guard is not necessary for correctness: the next engine ends leftovers before it makes another attempt. It is
// there so that nothing goes on when no next engine is started.
type processGuard struct {
	mark string // the value of PAWL_OWNER that processes of this life of the worker have
	log  *slog.Logger

	mu     sync.Mutex
	shell  *guardShell // nil if it does not run
	lines  []string    // the lines of the file: the open things of each attempt; empty: the line is free
	free   []int       // lines that are free
	open   int         // attempts whose processes run or are being started
	idle   *time.Timer // ends the shell; set while open is 0
	failed bool        // it could not be started, which is not tried again

	containers string   // the program that ends containers; empty if there is none
	env        []string // the environment of that program
}

// Lines of the guard's file have the same length, so that each can be written without the others. Its size is that of a
// word of memory, so that each is written at once: from a half-written one the guard would take a part of the number
// for another group. The largest number of a process has seven digits.
const (
	guardLine = 8
	starting  = "-" // the line of an attempt whose process is being started; otherwise its group
)

// newGuard returns a guard that starts with the first process. The mark is the owner's with a suffix, so that the guard
// of a killed worker never ends the processes of the next one.
func newGuard(owner string, log *slog.Logger) *processGuard {
	life := make([]byte, 8)
	_, _ = rand.Read(life) // never fails
	return &processGuard{mark: owner + "." + hex.EncodeToString(life), log: log}
}

// begin tells the guard that a process is about to start. It returns the attempt's line in the guard's file. Call end
// once, whatever the result is.
func (g *processGuard) begin() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open++
	if g.idle != nil {
		g.idle.Stop()
		g.idle = nil
	}
	line := len(g.lines)
	if last := len(g.free) - 1; last >= 0 {
		line, g.free = g.free[last], g.free[:last]
	} else {
		g.lines = append(g.lines, "")
	}
	g.ensure()
	g.write(line, starting)
	return line
}

// started tells the guard the group of a process that was started.
func (g *processGuard) started(line, group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if text := strconv.Itoa(group); len(text) < guardLine {
		g.write(line, text)
	} // otherwise the guard finds it as one that is being started
}

// end tells the guard that the processes of an attempt are gone, or that none could be started.
func (g *processGuard) end(line int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.write(line, "")
	g.free = append(g.free, line)
	g.open--
	if g.open == 0 && g.shell != nil {
		g.idle = time.AfterFunc(guardIdle, g.rest)
	}
}

// guardContainers makes the guard end the containers of this process, too, with that program.
func (g *processGuard) guardContainers(program string, env []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.containers == program {
		return
	}
	g.containers, g.env = program, env
	before := g.shell
	if before == nil {
		return
	}
	g.shell = nil
	if g.ensure(); g.shell == nil {
		g.shell = before
		return
	}
	for line := range g.lines {
		_ = before.write(line, "") // the new shell has its processes now; the old file is closed next
	}
	before.close()
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

// write changes a line of the file.
func (g *processGuard) write(line int, text string) {
	g.lines[line] = text
	if g.shell == nil {
		return
	}
	if err := g.shell.write(line, text); err != nil {
		g.warn(err)
	}
}

// ensure starts a shell if there is none, or if it was killed. A new one gets a file with all running processes.
func (g *processGuard) ensure() {
	if g.failed || g.shell != nil && !g.shell.hasEnded() {
		return
	}
	if g.shell != nil {
		g.shell.close()
		g.shell = nil
	}
	shell, err := startGuardShell(g.mark, g.containers, g.env)
	if err != nil {
		g.failed = true
		g.warn(err)
		return
	}
	g.shell = shell
	for line, text := range g.lines {
		g.write(line, text)
	}
}

func (g *processGuard) warn(err error) {
	g.log.Warn("processes of steps may outlive this one if it is killed", "error", err)
}

// guardText returns a line of the file in its written form.
func guardText(text string) (line [guardLine]byte) {
	for i := copy(line[:], text); i < guardLine-1; i++ {
		line[i] = ' '
	}
	line[guardLine-1] = '\n'
	return line
}
