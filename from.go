package pawl

// several is the first of several errors. For errors.Is, errors.As and people it is that one. A retry of the run has
// to know of the others as well: it begins all their steps again at once, and not one after the other.
type several struct {
	error
	others []error
}

func (e *several) Unwrap() error { return e.error }

// firstOf returns the first error that is not nil; nil: there is none.
func firstOf(errs []error) error {
	var found []error
	for _, err := range errs {
		if err != nil {
			found = append(found, err)
		}
	}
	switch len(found) {
	case 0:
		return nil
	case 1:
		return found[0]
	default:
		return &several{found[0], found[1:]}
	}
}

// stepsOf returns the keys of the steps that an error came from: those whose StepError it wraps.
func stepsOf(err error) []string {
	var keys []string
	for err != nil {
		switch e := err.(type) { //nolint:errorlint // as errors.As walks, but for all of them
		case *StepError:
			return append(keys, e.Step)
		case *several:
			for _, other := range e.others {
				keys = append(keys, stepsOf(other)...)
			}
			err = e.error
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, one := range e.Unwrap() {
				keys = append(keys, stepsOf(one)...)
			}
			return keys
		default:
			return keys
		}
	}
	return keys
}
