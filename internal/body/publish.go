package body

import "github.com/pawl-dev/pawl/internal/core"

// Publish shows a value to the readers of the run, in place of the one before. It is recorded with the body's next
// decision.
func (t *Thread) Publish(value []byte) error {
	if err := t.enter(Named("pawl.State")); err != nil {
		return err
	}
	t.live.session.publish(t.branch, value)
	t.exit()
	return nil
}

// publish records a value, unless an earlier call of the body has published it. Of values that the branch publishes
// without a decision between them, the last one counts.
func (s *Session) publish(b *Branch, value []byte) {
	b.point.Count++
	before := s.head.Points[b.prefix]
	if s.Replays(b) || before.After == b.point.After && b.point.Count <= before.Count {
		return
	}
	if st := s.steps[before.After]; st != nil && !st.asked {
		return // the last value came after a step that was kept, and that the branch will reach
	}
	cmd := core.Publish{Branch: b.prefix, After: b.point.After, Count: b.point.Count, Value: value}
	if last := len(s.commands) - 1; last >= 0 {
		if former, ok := s.commands[last].(core.Publish); ok && former.Branch == b.prefix {
			s.commands[last] = cmd
			return
		}
	}
	s.commands = append(s.commands, cmd)
}

// moveOn notes that the branch has reached its next decision.
func (b *Branch) moveOn(key string) { b.point = core.Point{After: key} }
