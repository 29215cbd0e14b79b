package api

import "strconv"

// Named finds a step by what people call it: its key, or for an item the name that it has, test[mac, 3]. Where several
// items have that name it returns their keys. A number is always an item's place.
func (r *Run) Named(name string) (s *Step, several []string) {
	for _, at := range r.Steps {
		switch {
		case at.Superseded:
		case at.Step == name:
			return at, nil
		case at.ItemName != "" && !isNumber(at.ItemName) && at.Name+"["+at.ItemName+"]" == name:
			s = at
			several = append(several, at.Step)
		}
	}
	if len(several) > 1 {
		return nil, several
	}
	return s, nil
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 64)
	return err == nil
}
