package core

import (
	"fmt"
	"strings"
)

// name returns the text of a small enumeration's value.
func name[T ~uint8](names []string, v T) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("unknown(%d)", uint8(v))
}

// parseName sets *v to the value whose text is s.
func parseName[T ~uint8](names []string, s string, v *T) error {
	for i, n := range names {
		if n == s {
			*v = T(i)
			return nil
		}
	}
	return fmt.Errorf("%q where one of %s is expected", s, strings.Join(names, ", "))
}
