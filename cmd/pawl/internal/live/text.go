package live

import (
	"fmt"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// shortRun is the length of a run id that people see: the millisecond of its creation, and enough of the rest to tell
// it from other runs of that millisecond, such as its own child.
const shortRun = 18

// Short returns a run's id as people see it: its beginning.
func Short(id string) string { return id[:min(shortRun, len(id))] }

// Local formats an instant for people, in their own time, with its zone: output is copied to people elsewhere.
func Local(at api.Time) string { return at.Std().Local().Format("2006-01-02 15:04:05 -07:00") }

// held formats the reason why something is held, and the instant until which, if that is in the future. After it
// something else may have been left out first.
func (d *drawing) held(h *api.Held) string {
	why := screen.Clean(h.Why)
	if h.Until > d.now {
		why += ", until " + Local(h.Until)
	}
	return why
}

// Moved formats a deadline that was set: which one, and until when.
func Moved(m api.Move) string {
	name := m.Limit + " deadline"
	if m.Limit == policy.LimitDeadline.String() {
		name = "deadline"
	}
	if m.At == 0 {
		return "no " + name
	}
	return name + " " + Local(m.At)
}

// Kept is why a step has a result although it did not run: its run repeats only a part of an earlier one.
const Kept = "kept from an earlier run"

// Plain formats an event as one line. Its columns are a contract: seconds since the run was created, type, step,
// text.
func Plain(e api.Event) string {
	step := screen.Clean(e.Step)
	if step == "" {
		step = "-"
	}
	line := fmt.Sprintf("%6d.%03ds  %s  %s  %s", e.OffsetMs/1000, e.OffsetMs%1000, screen.Pad(e.Type, 20),
		screen.Pad(step, 16), screen.Clean(e.Text))
	return screen.T(line).String()
}
