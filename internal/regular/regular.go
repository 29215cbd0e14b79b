// Package regular opens files that a step or somebody else has left in a folder, and nothing else: opening a named pipe
// waits for whoever writes to it, and opening a device may do anything.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrOdd is the cause of errors of what is not a file: a named pipe, a socket, a device.
var ErrOdd = errors.New("not a file")

// Opener opens files: the package os, or an os.Root.
type Opener interface {
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
}

type system struct{}

func (system) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}

// Open opens a file for reading. It never waits for another process.
func Open(name string) (*os.File, error) { return OpenIn(system{}, name) }

// OpenIn opens a file of a folder for reading.
func OpenIn(in Opener, name string) (*os.File, error) {
	f, err := in.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is %s, %w", name, Kind(info.Mode()), ErrOdd)
	}
	if err != nil {
		_ = f.Close() // it was only opened
		return nil, err
	}
	return f, nil
}

// ReadFile reads a file of at most limit bytes.
func ReadFile(name string, limit int64) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return data, err
}

// Kind names what has such a mode, with its article.
func Kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeSymlink != 0:
		return "a link"
	default:
		return "something else"
	}
}
