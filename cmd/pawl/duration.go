package main

import (
	"time"

	"github.com/pawl-dev/pawl/internal/decode"
)

// parseDuration reads a duration of the command line. A number alone is refused: people mean seconds by it.
func parseDuration(text string) (time.Duration, error) {
	d, err := decode.WithUnit(text)
	return d.Std(), err
}
