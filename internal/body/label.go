package body

import "github.com/pawl-dev/pawl/internal/core"

// Label changes labels of the run. A body that is called again does not change them a second time, for others may have
// changed them since. The name tells the changes of a branch apart.
func (t *Thread) Label(name string, change core.Labels) error {
	if err := t.enter(Named("label", name)); err != nil {
		return err
	}
	key := t.branch.Key("label:" + name)
	if t.live.session.Marked(key) == nil {
		t.live.session.label(key, change, copied(t.branch.causes))
	}
	t.exit()
	return nil
}

// label decides a change of labels.
func (s *Session) label(key string, change core.Labels, causes core.Causes) {
	s.Mark(key, []byte(change), causes)
	if m, ok := s.commands[len(s.commands)-1].(core.Mark); ok {
		m.Labels = change
		s.commands[len(s.commands)-1] = m
	}
}
