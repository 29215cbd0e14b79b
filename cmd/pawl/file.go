package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/daemon/folder"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/systems"
)

// files reads the files that the command line names.
func (s streams) files() folder.Files { return folder.Files{In: s.In} }

// readFile reads a file that was named on the command line; - is the standard input. The name it returns is for errors.
func (s streams) readFile(path string) (name string, src []byte, err error) {
	name, src, err = s.files().Read(path)
	if errors.As(err, new(*folder.NoFileError)) {
		if system, _, of := strings.Cut(path, ":"); of && !strings.ContainsAny(system, `/\.`) {
			err = fmt.Errorf("%w; the systems whose files are read are %s", err, strings.Join(systems.Names(), ", "))
		}
	}
	return name, src, err
}

// parseFlow reads a flow file, in which policies may stand in the words of other systems.
func (s streams) parseFlow(name string, src []byte) (*flow.Document, error) {
	return s.files().Parse(name, src)
}

// lines writes styled lines.
func (a *app) lines(lines []screen.Line) {
	color := a.color(a.Out)
	for _, l := range lines {
		fmt.Fprintln(a.Out, l.Render(color))
	}
}

// exact writes a duration without dropping any of it.
func exact(d time.Duration) string { return duration.Format(d) }

// parseDuration reads a duration of the command line. A number alone is refused, because people would mean seconds.
func parseDuration(text string) (time.Duration, error) {
	d, err := decode.WithUnit(text)
	return d.Std(), err
}
