package worker

import (
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/core"
)

// reporting passes a pool's reports on. An engine is made after its workers, and one that recovers runs hands out attempts
// while it opens: what is reported before there is a reporter is kept for it.
type reporting struct {
	to atomic.Pointer[Reporter]

	mu    sync.Mutex
	early []early
}

type early struct {
	run core.RunID
	in  core.Input
}

func (r *reporting) report(run core.RunID, in core.Input) {
	if to := r.to.Load(); to != nil {
		(*to).Report(run, in)
		return
	}
	r.mu.Lock()
	to := r.to.Load()
	if to == nil {
		r.early = append(r.early, early{run, in})
	}
	r.mu.Unlock()
	if to != nil {
		(*to).Report(run, in)
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
		to.Report(e.run, e.in)
	}
}
