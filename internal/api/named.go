package api

import "github.com/pawl-dev/pawl/internal/naming"

// Named finds a step by the name that people use: its key, or for an item the item's name, test[mac, 3]. Where several
// items have that name it returns their keys.
func (r *Run) Named(name string) (s *Step, several []string) {
	step, item, isItem := naming.Item(name)
	for _, at := range r.Steps {
		switch {
		case at.Superseded:
		case at.Step == name:
			return at, nil
		case isItem && at.Name == step && at.ItemName == item:
			s = at
			several = append(several, at.Step)
		}
	}
	if len(several) > 1 {
		return nil, several
	}
	return s, nil
}
