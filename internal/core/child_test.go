package core

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// TestInherits: a child run follows the deadline that it has from its parent, and no other, up to its own limit.
func TestInherits(t *testing.T) {
	f, err := parseFixture("rest sleep=1d")
	fatal(t, err)
	at := func(h int) Time { return epoch.Add(time.Duration(h) * time.Hour) }
	for _, c := range []struct {
		name              string
		own               time.Duration
		started, was, now int // hours; the first one is what it began with
		want              int // 0: it stays
	}{
		{"it follows", 0, 1, 1, 2, 2},
		{"up to its own limit", 3 * time.Hour, 1, 1, 5, 3},
		{"which is the earlier one", 30 * time.Minute, 1, 1, 2, 0},
		{"an operator gave it another", 0, 3, 1, 2, 0},
	} {
		r := NewRun(RunID{6: 0x70, 15: 7})
		def := f.definition()
		if c.own > 0 {
			def.Rules = func() RunRules { return RunRules{Execution: &policy.Limit{After: c.own}} }
		}
		_, err := Advance(r, def, Start{ExecutionAt: RunLimit{At: at(c.started)}}, epoch)
		fatal(t, err)
		to, moves := r.Inherits(at(c.was), at(c.now))
		if moves != (c.want > 0) || moves && to != at(c.want) {
			t.Errorf("%s: %v to %s", c.name, moves, to)
		}
	}
}
