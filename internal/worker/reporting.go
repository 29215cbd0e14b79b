package worker

import (
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/core"
)

// reporting passes a pool's reports on. An engine is made after its workers, and one that recovers runs hands out attempts
// while it opens: what is reported before there is a reporter is kept for it.
type reporting struct {
	to atomic.Pointer[Reporter]

	mu    sync.Mutex
	early []early
}

// early is a report, and whom to tell when it is durable; nil: nobody.
type early struct {
	run  core.RunID
	in   core.Input
	done func(ended bool)
}

func (e early) give(to Reporter) {
	if e.done == nil {
		to.Report(e.run, e.in)
	} else if c, ok := to.(Confirmer); ok {
		c.Confirm(e.run, e.in, e.done)
	} else {
		to.Report(e.run, e.in)
		e.done(false)
	}
}

func (r *reporting) report(run core.RunID, in core.Input) { r.pass(early{run: run, in: in}) }

// confirm reports, and says when that is durable where the reporter can tell.
func (r *reporting) confirm(run core.RunID, in core.Input, done func(ended bool)) {
	r.pass(early{run, in, done})
}

func (r *reporting) pass(e early) {
	if to := r.to.Load(); to != nil {
		e.give(*to)
		return
	}
	r.mu.Lock()
	to := r.to.Load()
	if to == nil {
		r.early = append(r.early, e)
	}
	r.mu.Unlock()
	if to != nil {
		e.give(*to)
	}
}

// begin sets the reporter and gives it what was kept.
func (r *reporting) begin(to Reporter) {
	r.mu.Lock()
	kept := r.early
	r.early = nil
	r.to.Store(&to)
	r.mu.Unlock()
	for _, e := range kept {
		e.give(to)
	}
}
