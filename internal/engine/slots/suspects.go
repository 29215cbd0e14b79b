package slots

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/engine/limit"
)

// suspects are the waiting suspects of a partition for slots of a queue. Of all suspects in a process only a group has
// slots at once. When the process dies, it may be any of the group that has killed it. A suspect in a group of one has
// lost its attempt on its own or by chance, and not because of another suspect.
type suspects struct {
	client *limit.Client
	key    Key
}

// group counts the suspects that have slots. All are of one size. So a suspect that runs alone, or in a small group,
// never runs beside one about which less is known.
type group struct {
	size    int // how many of them may have slots at once
	running int
	begun   int // how many began since none had a slot
}

// joins reports whether a suspect may run beside those that do. If suspects of other groups wait, later arrivals do not
// refill the group forever.
func (g *group) joins(size int, othersWait bool) bool {
	switch {
	case g.running == 0:
		return true
	case size != g.size || g.running >= size:
		return false
	default:
		return g.begun < size || !othersWait
	}
}

func (g *group) joined(size int) {
	if g.running == 0 {
		*g = group{size: size}
	}
	g.running++
	g.begun++
}

func (g *group) left() { g.running-- }

// joinedBefore counts a suspect whose worker has it since before the engine was opened. Where suspects of several sizes
// were kept, because more than one process had them, none joins them.
func (g *group) joinedBefore(size int) {
	alone := g.running == 0
	g.joined(size)
	if !alone && size != g.size {
		g.size = 0
	}
}

// Keep counts an attempt that a remote worker has since before the engine was opened.
func (m *Matcher) Keep(key Key) {
	if key.Group > 0 {
		m.mu.Lock()
		m.group.joinedBefore(key.Group)
		m.mu.Unlock()
	}
}

// takeApart takes a slot for a suspect. It wakes the next one that may have a slot as well.
func (m *Matcher) takeApart(s suspects) (Slot, bool) {
	m.mu.Lock()
	place := slices.Index(m.suspects, s)
	if place < 0 {
		place = len(m.suspects)
		m.suspects = append(m.suspects, s)
	}
	if place != m.nextSuspect() {
		m.mu.Unlock()
		return Slot{}, false
	}
	key := s.key.Ordinary()
	q := m.queue(key)
	workers, _ := m.free(q, key, 0)
	m.suspects = slices.Delete(m.suspects, place, place+1)
	m.group.joined(s.key.Group)
	taken := q.take(workers, key)
	taken.Key = s.key
	next := m.whichSuspect(s.client)
	m.mu.Unlock()
	next.wake()
	return taken, true
}

// StartLoad notes that a partition is about to read its runs. While one does, what remote workers execute of them is
// not counted yet.
func (m *Matcher) StartLoad() {
	m.mu.Lock()
	m.loads++
	m.mu.Unlock()
	m.limiter.StartLoad()
}

// FinishLoad notes that a partition has read its runs. The caller itself looks for waiting suspects.
func (m *Matcher) FinishLoad(c *limit.Client) {
	m.limiter.FinishLoad(c)
	m.mu.Lock()
	m.loads--
	next := m.whichSuspect(c)
	m.mu.Unlock()
	next.wake()
}

// nextSuspect returns which of the waiting suspects may take a slot, as an index; -1: none may. It is the first one
// that may join the group, and for whose queue workers have a free slot.
func (m *Matcher) nextSuspect() int {
	if m.loads > 0 && len(m.remotes()) > 0 {
		return -1
	}
	return slices.IndexFunc(m.suspects, func(s suspects) bool {
		if !m.group.joins(s.key.Group, m.otherGroupWaits()) {
			return false
		}
		own := s.key.Ordinary()
		_, free := m.free(m.queue(own), own, 0)
		return free
	})
}

// otherGroupWaits reports whether suspects wait that cannot join the group and for which there are workers.
func (m *Matcher) otherGroupWaits() bool {
	return slices.ContainsFunc(m.suspects, func(s suspects) bool {
		return s.key.Group != m.group.size && m.Slots(s.key.Queue, s.key.Type) != 0
	})
}

// whichSuspect returns the suspects that can take a slot, if they are of another partition than this one; the zero
// value: none can.
func (m *Matcher) whichSuspect(except *limit.Client) suspects {
	if next := m.nextSuspect(); next >= 0 && m.suspects[next].client != except {
		return m.suspects[next]
	}
	return suspects{}
}

func (s suspects) wake() {
	if s.client != nil {
		s.client.Wake(s.key.Queue, s.key.Type)
	}
}
