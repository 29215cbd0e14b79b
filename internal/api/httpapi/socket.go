package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// SocketOf returns where the process that holds a database file listens for others on this machine.
func SocketOf(database string) string { return database + ".sock" }

// longest is how long the path of a socket may be: 104 bytes on most systems, with its end.
const longest = 100

// ListenSocket listens at a path that only this user can connect to. The caller owns the path: a socket that is there
// was left by a process that has died, and is replaced. Closing the listener removes the socket.
func ListenSocket(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s is in the way: it is not a socket", path)
	}
	// Until its mode is set, the socket is in a folder that nobody else can enter.
	folder, err := os.MkdirTemp(filepath.Dir(path), ".pawl-socket-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	made := filepath.Join(folder, "s")
	var l *net.UnixListener
	err = shortened(made, func(short string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it would remove the path that it was made at
	if err := errors.Join(os.Chmod(made, 0o600), os.Rename(made, path)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &socket{UnixListener: l, path: path}, nil
}

// socket is a listener with the path of its socket.
type socket struct {
	*net.UnixListener
	path string
	once sync.Once
}

// Close removes the socket, then closes the listener.
func (s *socket) Close() error {
	var removed error
	s.once.Do(func() {
		if removed = os.Remove(s.path); errors.Is(removed, fs.ErrNotExist) {
			removed = nil
		}
	})
	return errors.Join(removed, s.UnixListener.Close())
}

// DialSocket returns the dialer of a socket.
func DialSocket(path string) Dialer {
	return func(ctx context.Context) (c net.Conn, err error) {
		err = shortened(path, func(short string) (err error) {
			c, err = new(net.Dialer).DialContext(ctx, "unix", short)
			return err
		})
		return c, err
	}
}

// shortened calls fn with a path of a file that is short enough for a socket. Linux has one for every file.
func shortened(path string, fn func(short string) error) error {
	if len(path) <= longest {
		return fn(path)
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return &net.OpError{Op: "dial", Net: "unix", Err: err}
	}
	defer folder.Close()
	return fn(filepath.Join("/proc/self/fd", strconv.Itoa(int(folder.Fd())), filepath.Base(path)))
}
