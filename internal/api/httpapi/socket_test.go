package httpapi

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestSocket checks that a socket is this user's only, takes the place of one that was left, and is gone when its
// listener is closed. Its path may be longer than the system's addresses.
func TestSocket(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 90), strings.Repeat("e", 90))
	if err := os.MkdirAll(long, 0o755); err != nil {
		t.Fatal(err)
	}
	folders := map[string]string{"short": t.TempDir()}
	if runtime.GOOS == "linux" {
		folders["long"] = long
	}
	for name, folder := range folders {
		t.Run(name, func(t *testing.T) {
			path := SocketOf(filepath.Join(folder, "pawl.db"))
			if _, err := DialSocket(path)(t.Context()); err == nil {
				t.Error("there is no socket yet")
			}
			left, err := ListenSocket(path)
			if err != nil {
				t.Fatal(err)
			}
			left.(*socket).UnixListener.Close() // as if its process had died
			if _, err := DialSocket(path)(t.Context()); err == nil {
				t.Error("nobody listens")
			}
			l, err := ListenSocket(path)
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil || info.Mode().Type() != fs.ModeSocket || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			came := make(chan net.Conn)
			go func() {
				c, err := l.Accept()
				if err != nil {
					t.Error(err)
				}
				came <- c
			}()
			c, err := DialSocket(path)(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			(<-came).Close()
			c.Close()
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if rest, err := os.ReadDir(folder); err != nil || len(rest) > 0 {
				t.Errorf("left: %v, %v", rest, err)
			}
		})
	}
}

// TestSocketInTheWay checks that a file that somebody has put at the path of the socket is not replaced.
func TestSocketInTheWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db.sock")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenSocket(path); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("%s, %v", text, err)
	}
}

func TestAddresses(t *testing.T) {
	for address, ok := range map[string]bool{
		"http://127.0.0.1:7295": true, "http://localhost:7295/": true, "https://pawl.example": true,
		"": false, "127.0.0.1:7295": false, "ftp://x": false, "http://": false, "http://x/api": false,
		"http://x?a=b":        false,
		"http://ada:secret@x": false, "http://x y": false, "sqlite:x": false,
	} {
		if c, err := New(address); (err == nil) != ok || ok && c.base != strings.TrimSuffix(address, "/") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
