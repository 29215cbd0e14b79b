package worker

import (
	"os"
	"sync"
	"time"
)

const (
	programKept = time.Second // how long a program is taken from where it was found, as shells do it for longer
	maxPrograms = 1000
)

// programs remembers for a moment in which folder of a PATH a program was found. A program that stands at the end of a
// long PATH would otherwise be looked for in all folders before it, at each start.
type programs struct {
	mu    sync.Mutex
	found map[program]foundProgram
}

type program struct{ name, path string }

type foundProgram struct {
	full  string
	until time.Time
}

// get returns the full path of a program that was found a moment ago and is still there.
func (p *programs) get(name, path string) (string, bool) {
	p.mu.Lock()
	f, ok := p.found[program{name, path}]
	p.mu.Unlock()
	if !ok || time.Now().After(f.until) {
		return "", false
	}
	info, err := os.Stat(f.full)
	return f.full, err == nil && mayExecute(name, f.full, info) == nil
}

func (p *programs) put(name, path, full string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil || len(p.found) == maxPrograms {
		p.found = make(map[program]foundProgram)
	}
	p.found[program{name, path}] = foundProgram{full, time.Now().Add(programKept)}
}
