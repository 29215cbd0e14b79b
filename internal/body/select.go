package body

import (
	"fmt"
	"strconv"
)

// Any waits until one of the results is there, and returns its index. Nil means a result that exists from the
// beginning. If several are there, it is one that was returned less often than the others, so that none of them waits
// for ever in a loop. Which one it was is recorded.
func (t *Thread) Any(results []*Result) (int, error) {
	what := Named("pawl.Select")
	if err := t.enterFor(what, results...); err != nil {
		return -1, err
	}
	s, b := t.live.session, t.branch
	var signals []*Signal
	for _, r := range results {
		if r != nil {
			signals = append(signals, r.signal())
		}
	}
	t.wait(what, func() bool { return fairest(results) >= 0 }, signals...)
	n, key := fairest(results), b.Key("any")
	value := s.Marked(key)
	if value != nil {
		n = t.anyAgain(what, results, key, value)
	}
	if r := results[n]; r != nil {
		b.saw(r)
		r.chosen()
	}
	if value == nil {
		s.Mark(key, []byte(strconv.Itoa(n)), copied(b.causes))
	}
	t.exit()
	return n, nil
}

// anyAgain returns the recorded choice. It waits for its result, which a run of version 0.1.0 may have had sooner.
func (t *Thread) anyAgain(what Call, results []*Result, key string, value []byte) int {
	n, err := strconv.Atoi(string(value))
	if err != nil || n < 0 || n >= len(results) {
		t.live.session.changed(fmt.Sprintf("future %s of %q", value, key),
			fmt.Sprintf("one of %d futures", len(results)))
		t.leave()
	}
	if r := results[n]; r != nil {
		t.wait(what, r.settled, r.signal())
	}
	return n
}

// fairest returns the index of a result that is there and was chosen least often, -1 if there is none.
func fairest(results []*Result) int {
	best, least := -1, 0
	for i, r := range results {
		if r != nil && !r.settled() {
			continue
		}
		if n := r.choices(); best < 0 || n < least {
			best, least = i, n
		}
	}
	return best
}

// choices returns how often Any has returned the result.
func (r *Result) choices() int {
	switch {
	case r == nil:
		return 0
	case r.step != nil:
		return r.step.choices
	default:
		return r.branch.choices
	}
}

func (r *Result) chosen() {
	if r.step != nil {
		r.step.choices++
	} else {
		r.branch.choices++
	}
}
