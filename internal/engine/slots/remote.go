package slots

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/engine/limit"
)

// Remote returns the remote workers to which a queue belongs, or nil if there are none.
func (m *Matcher) Remote(queue string) *Named {
	for _, w := range *m.workers.Load() {
		if w.Remote != nil && w.Remote.Serves(queue) {
			return w
		}
	}
	return nil
}

// remotes returns the remote workers, in the order in which they were added.
func (m *Matcher) remotes() (all []*Named) {
	for _, w := range *m.workers.Load() {
		if w.Remote != nil {
			all = append(all, w)
		}
	}
	return all
}

// slots returns how many tasks of the type may run at once at these workers; see AnyWorkers. Remote workers have no
// slots for a queue that belongs to others.
func (w *Named) slots(queue, taskType string) int {
	others := func(before *Named) bool { return before.Remote.Serves(queue) }
	if w.Remote != nil && (!w.Remote.Serves(queue) || slices.ContainsFunc(w.before, others)) {
		return 0
	}
	return w.Workers.Slots(queue, taskType)
}

// Offered wakes the partitions that wait for slots of a queue, because a remote worker has come with free ones. takes
// reports which task types it takes.
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
