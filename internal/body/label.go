package body

import "github.com/pawl-dev/pawl/internal/core"

// Label changes labels of the run. A body that is called again does not change them a second time, for others may have
// changed them since. The name distinguishes the changes of a branch.
func (t *Thread) Label(name string, change core.Labels) error {
	if err := t.enter(Named("label", name)); err != nil {
		return err
	}
	key := t.branch.Key("label:" + name)
	if s := t.live.session; s.Marked(key) == nil {
		s.note(TypeMark, key, core.Mark{Output: []byte(change), Labels: change, Causes: copied(t.branch.causes)})
	}
	t.exit()
	return nil
}
