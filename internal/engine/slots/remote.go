package slots

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/engine/limit"
)

// Remote returns the remote workers; nil: there are none.
func (m *Matcher) Remote() *Named {
	all := *m.workers.Load()
	if i := slices.IndexFunc(all, func(w *Named) bool { return w.Remote != nil }); i >= 0 {
		return all[i]
	}
	return nil
}

// Offered wakes the partitions that wait for slots of a queue, because a remote worker has come with free ones. takes
// says which task types it takes.
func (m *Matcher) Offered(queue string, takes func(taskType string) bool) {
	type waiting struct {
		key     Key
		clients []*limit.Client
	}
	var wake []waiting
	m.mu.Lock()
	for key, q := range m.queues {
		if key.Queue == queue && len(q.waiting) > 0 && takes(key.Type) {
			wake = append(wake, waiting{key, m.whoCanTake(q, key, nil)})
		}
	}
	suspect := m.whichSuspect(nil)
	m.mu.Unlock()
	suspect.wake()
	for _, w := range wake {
		for _, c := range w.clients {
			c.Wake(w.key.Queue, w.key.Type)
		}
	}
}
