package main

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/decode"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
)

// reader returns the text of a file that templates come from, by the path that their flow gives.
type reader = func(path string) ([]byte, error)

// parseFlow reads a flow file, in which policies may stand in the words of other systems.
func (s streams) parseFlow(name string, src []byte) (*flow.Document, error) {
	return flowkind.Parse(name, string(src), s.beside(name))
}

// beside returns a reader of files whose paths count from the folder of a flow file.
func (s streams) beside(name string) reader {
	return func(path string) ([]byte, error) {
		if name == "stdin" {
			return nil, errors.New("a flow from the standard input has no folder to find files in")
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(name), filepath.FromSlash(path))
		}
		_, text, err := s.readFile(path)
		return text, err
	}
}

// parseDuration reads a duration of the command line. A number alone is refused: people mean seconds by it.
func parseDuration(text string) (time.Duration, error) {
	d, err := decode.WithUnit(text)
	return d.Std(), err
}
