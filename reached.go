package pawl

import (
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/internal/nearest"
)

// mostReached bounds the names of steps that are kept: a loop may make up any number of them.
const mostReached = 1000

// reached has the names of the steps that the bodies of a definition have asked for in this process, to tell options
// that are for none of them.
type reached struct {
	mu    sync.Mutex
	names map[string]bool
	told  map[string]bool // names of options that the log has told already
}

// note notes that a body has asked for a step.
func (r *reached) note(step string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.names) < mostReached {
		r.names[step] = true
	}
}

// tell logs the options of a definition that are for a step which no body has asked for although a run has succeeded,
// once each, if they are probably meant for another one. A step without such a neighbour may be seldom needed.
func (r *reached) tell(d *definition, log *slog.Logger) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, step := range slices.Sorted(maps.Keys(d.byStep)) {
		hint := ""
		if !r.names[step] && !r.told[step] {
			hint = nearest.Hint(step, slices.Sorted(maps.Keys(r.names)))
		}
		if hint == "" {
			continue
		}
		if r.told == nil {
			r.told = map[string]bool{}
		}
		r.told[step] = true
		log.Warn("ForStep sets options of a step that no run has had: "+hint, "workflow", d.name, "step", step)
	}
}
