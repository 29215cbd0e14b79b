package core

// timers is an indexed min-heap of a run's open steps by the instant at which each wants something. It makes the
// run's wake time cheap with many open steps; nothing in it is state, it is derived whenever a step changes.
type timers struct {
	heap []timer
	pos  map[StepID]int
}

type timer struct {
	at   Time
	step StepID
}

// set makes at the step's instant; zero removes the step.
func (t *timers) set(step StepID, at Time) {
	i, in := t.pos[step]
	switch {
	case at == 0 && !in:
	case at == 0:
		t.remove(i)
	case in:
		t.heap[i].at = at
		t.fix(i)
	default:
		if t.pos == nil {
			t.pos = make(map[StepID]int, 1)
		}
		t.heap = append(t.heap, timer{at, step})
		t.pos[step] = len(t.heap) - 1
		t.up(len(t.heap) - 1)
	}
}

// first returns the earliest timer.
func (t *timers) first() (timer, bool) {
	if len(t.heap) == 0 {
		return timer{}, false
	}
	return t.heap[0], true
}

func (t *timers) remove(i int) {
	last := len(t.heap) - 1
	delete(t.pos, t.heap[i].step)
	if i != last {
		t.heap[i] = t.heap[last]
		t.pos[t.heap[i].step] = i
	}
	t.heap = t.heap[:last]
	if i != last {
		t.fix(i)
	}
}

func (t *timers) fix(i int) {
	if !t.down(i) {
		t.up(i)
	}
}

// less orders by instant, then by step, so that a replay fires in the same order.
func (t *timers) less(i, j int) bool {
	a, b := t.heap[i], t.heap[j]
	return a.at < b.at || (a.at == b.at && a.step < b.step)
}

func (t *timers) swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.pos[t.heap[i].step], t.pos[t.heap[j].step] = i, j
}

func (t *timers) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !t.less(i, parent) {
			return
		}
		t.swap(i, parent)
		i = parent
	}
}

func (t *timers) down(i int) bool {
	start := i
	for {
		child := 2*i + 1
		if child >= len(t.heap) {
			break
		}
		if child+1 < len(t.heap) && t.less(child+1, child) {
			child++
		}
		if !t.less(child, i) {
			break
		}
		t.swap(i, child)
		i = child
	}
	return i > start
}
