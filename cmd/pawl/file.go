package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/duration"
)

// maxFile bounds what is read whole: flow files, cases, inputs.
const maxFile = 16 << 20

// note tells of a file or folder that is read now.
func (s streams) note(path string, info fs.FileInfo) {
	if s.noted != nil {
		s.noted(path, info)
	}
}

// readFile reads a file that was named on the command line; - is the standard input. The name it returns is for errors.
func (s streams) readFile(path string) (name string, src []byte, err error) {
	in, name := io.Reader(s.In), "stdin"
	if path != "-" {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			hint := ""
			if system, _, of := strings.Cut(path, ":"); of && !strings.ContainsAny(system, `/\.`) {
				hint = "; the systems whose files are read are " + strings.Join(systemNames, ", ")
			}
			return path, nil, fmt.Errorf("%s: there is no such file%s", path, hint)
		}
		if err != nil {
			return path, nil, err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			if info.IsDir() {
				return path, nil, fmt.Errorf("%s: is a directory; name a file in it", path)
			}
			s.note(path, info)
		}
		in, name = f, path
	}
	src, err = io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return name, nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(src) > maxFile {
		return name, nil, fmt.Errorf("%s: is larger than %d MiB, which is more than any file of this kind needs", name,
			maxFile>>20)
	}
	return name, src, nil
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
