//go:build !linux

package screen

import (
	"errors"
	"os"
)

// Keys needs a terminal that this build does not know: questions are answered with a line.
func Keys(*os.File) (undo func(), err error) {
	return nil, errors.New("screen: single keys are not supported on this system")
}
