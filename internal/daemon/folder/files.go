// Package folder reads flows from files: those that a server starts by name, and those that a command names.
package folder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/flow"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
)

// MaxFile limits the size of files that are read whole, in bytes: flow files, cases, inputs.
const MaxFile = 16 << 20

// Stdin is the name of the standard input in errors.
const Stdin = "stdin"

// Files reads the files of flows.
type Files struct {
	In io.Reader // the standard input, which the path - names; nil: a path never does
	// Noted is called before each file or folder is read. nil: it is not called.
	Noted func(path string, info fs.FileInfo)
}

// Reader returns the text of a file that templates come from, by the path that their flow gives.
type Reader = func(path string) ([]byte, error)

// note reports a file or folder that is going to be read.
func (s Files) note(path string, info fs.FileInfo) {
	if s.Noted != nil {
		s.Noted(path, info)
	}
}

// NoFileError is the error for a file that is not there.
type NoFileError struct{ Path string }

func (e *NoFileError) Error() string { return e.Path + ": there is no such file" }

// Read reads a file; - is the standard input. The name it returns is for errors.
func (s Files) Read(path string) (name string, src []byte, err error) {
	in, name := s.In, Stdin
	if path != "-" || in == nil {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil, &NoFileError{path}
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
	src, err = io.ReadAll(io.LimitReader(in, MaxFile+1))
	if err != nil {
		return name, nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(src) > MaxFile {
		return name, nil, fmt.Errorf("%s: is larger than %d MiB, which is more than any file of this kind needs", name,
			MaxFile>>20)
	}
	return name, src, nil
}

// Parse reads a flow file, in which policies may be written in the words of other systems.
func (s Files) Parse(name string, src []byte) (*flow.Document, error) {
	return flowkind.Parse(name, string(src), s.Beside(name))
}

// Beside returns a reader of files whose paths count from the folder of a flow file.
func (s Files) Beside(name string) Reader {
	return func(path string) ([]byte, error) {
		if name == Stdin {
			return nil, errors.New("a flow from the standard input has no folder to find files in")
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(name), filepath.FromSlash(path))
		}
		_, text, err := s.Read(path)
		return text, err
	}
}

// Bundle makes a bundle of the text of a flow file, and of the flows its steps start from beside it. read returns the
// files that its templates come from.
func (s Files) Bundle(name string, src []byte, read Reader) (b flowkind.Bundle, doc *flow.Document, err error) {
	b = flowkind.Bundle{Flow: flowkind.Source{File: name, Text: string(src)}}
	if b.Dir, err = os.Getwd(); err != nil {
		return b, nil, err
	}
	if doc, err = flowkind.Parse(name, string(src), read); err != nil {
		return b, nil, err
	}
	b.Flow.Files = doc.Files()
	b, err = s.WithChildren(b, doc)
	return b, doc, err
}

// WithChildren adds the flows that a flow's steps may start: those that they name, or all files beside it if a name is
// an expression.
func (s Files) WithChildren(b flowkind.Bundle, doc *flow.Document) (flowkind.Bundle, error) {
	if !flowkind.HasChildren(doc) {
		return b, nil
	}
	if doc.File == Stdin {
		return b, errors.New("a flow from the standard input cannot start child flows: there is no directory " +
			"to find them in")
	}
	for _, path := range s.list(filepath.Dir(doc.File)) {
		if filepath.Clean(path) == filepath.Clean(doc.File) {
			continue
		}
		if _, src, err := s.Read(path); err == nil { // else it is not a file, or not ours to read
			child := flowkind.Source{File: path, Text: string(src)}
			if doc, err := s.Parse(path, src); err == nil {
				child.Files = doc.Files()
			}
			b.Children = append(b.Children, child)
		}
	}
	if err := b.Circle(doc); err != nil {
		return b, err
	}
	return b.Choose(doc)
}

// list returns the possible flow files in a folder; one that cannot be read has none.
func (s Files) list(dir string) []string {
	if info, err := os.Stat(dir); err == nil {
		s.note(dir, info)
	}
	var paths []string
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, name := range names {
		switch filepath.Ext(name.Name()) {
		case ".yaml", ".yml", ".json":
			paths = append(paths, filepath.Join(dir, name.Name()))
		}
	}
	return paths
}
