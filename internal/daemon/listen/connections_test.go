package listen

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/internal/memnet"
)

// TestConnectionLimit checks that half of few file descriptors is kept for work, and of many as many as the processes
// of steps need.
func TestConnectionLimit(t *testing.T) {
	for _, c := range []struct {
		descriptors uint64
		processes   int
		want        int
	}{{64, 16, 16}, {1024, 16, 768}, {1 << 20, 32, 1<<20 - 384}, {1 << 40, 16, 1 << 20}} {
		if got := connectionLimit(c.descriptors, c.processes); got != c.want {
			t.Errorf("%d descriptors, %d processes: %d, want %d", c.descriptors, c.processes, got, c.want)
		}
	}
}

// TestBoundedListener checks that a connection beyond the bound waits until another one is closed.
func TestBoundedListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memnet.Listen()
		l := bound(inner, 1)
		accepted, ended := make(chan net.Conn, 2), make(chan error, 1)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					ended <- err
					return
				}
				accepted <- conn
			}
		}()
		for range 2 {
			go func() {
				if conn, err := inner.Dial(t.Context(), "", ""); err == nil {
					defer conn.Close()
					_, _ = conn.Read(make([]byte, 1))
				}
			}()
		}
		synctest.Wait()
		if len(accepted) != 1 {
			t.Fatalf("%d connections are accepted", len(accepted))
		}
		_ = (<-accepted).Close()
		synctest.Wait()
		if len(accepted) != 1 {
			t.Fatalf("%d connections are accepted after the first was closed", len(accepted))
		}
		_ = l.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		_ = (<-accepted).Close()
	})
}
