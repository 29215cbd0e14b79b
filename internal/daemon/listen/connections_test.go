package listen

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// caller is a connection from an address.
type caller struct {
	net.Conn
	address string
	closed  bool
}

func (c *caller) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.address), Port: 1234}
}

func (c *caller) Close() error {
	c.closed = true
	return nil
}

// crowd opens connections one after the other, a second apart, and remembers them by name.
type crowd struct {
	*Connections
	now   time.Time
	log   strings.Builder
	conns map[string]net.Conn // nil: it was refused
	raw   map[string]*caller
}

func newCrowd(most, each int) *crowd {
	c := &crowd{now: time.Unix(0, 0), conns: map[string]net.Conn{}, raw: map[string]*caller{}}
	c.Connections = newConnections(most, each, slog.New(slog.NewTextHandler(&c.log, nil)))
	c.Connections.now = func() time.Time { return c.now }
	return c
}

func (c *crowd) opens(name, address string) {
	c.now = c.now.Add(time.Second)
	c.raw[name] = &caller{address: address}
	c.conns[name] = c.admit(c.raw[name], http.StateNew)
}

func (c *crowd) is(name string, state http.ConnState) {
	c.now = c.now.Add(time.Second)
	c.State(c.conns[name], state)
}

// states tells of each name: refused, closed, probes or open.
func (c *crowd) states(names ...string) string {
	var out []string
	for _, name := range names {
		state := "open"
		switch {
		case c.conns[name] == nil:
			state = "refused"
		case c.raw[name].closed:
			state = "closed"
		case c.OnlyProbes(c.conns[name]):
			state = "probes"
		}
		out = append(out, name+" "+state)
	}
	return strings.Join(out, ", ")
}

// TestFullConnections checks whose connection is closed for a new one.
func TestFullConnections(t *testing.T) {
	for name, test := range map[string]struct {
		play func(c *crowd)
		want string
	}{
		"the idle one": {func(c *crowd) {
			c.is("a", http.StateActive)
			c.is("b", http.StateIdle)
			c.opens("d", "10.0.0.9")
		}, "a open, b closed, c open, d open"},
		"the one that has been idle for longest": {func(c *crowd) {
			c.is("c", http.StateIdle)
			c.is("b", http.StateIdle)
			c.is("a", http.StateActive)
			c.opens("d", "10.0.0.9")
		}, "a open, b open, c closed, d open"},
		"an idle one rather than one that has said nothing": {func(c *crowd) {
			c.is("c", http.StateIdle)
			c.opens("d", "10.0.0.9")
		}, "a open, b open, c closed, d open"},
		"the oldest that has said nothing": {func(c *crowd) {
			c.opens("d", "10.0.0.9")
		}, "a closed, b open, c open, d open"},
		"none, if all are at work: only probes": {func(c *crowd) {
			for _, name := range []string{"a", "b", "c"} {
				c.is(name, http.StateActive)
			}
			c.opens("d", "10.0.0.9")
		}, "a open, b open, c open, d probes"},
		"and beyond the reserve it is refused": {func(c *crowd) {
			for _, name := range []string{"a", "b", "c"} {
				c.is(name, http.StateActive)
			}
			c.opens("e", "10.0.0.8")
			c.is("e", http.StateActive)
			c.opens("d", "10.0.0.9")
		}, "a open, b open, c open, d refused"},
		"the address that has most gets no more": {func(c *crowd) {
			for _, name := range []string{"a", "b", "c"} {
				c.is(name, http.StateActive)
			}
			c.opens("d", "10.0.0.1")
		}, "a open, b open, c open, d refused"},
		"a closed one makes room": {func(c *crowd) {
			_ = c.conns["b"].Close()
			c.opens("d", "10.0.0.9")
		}, "a open, b closed, c open, d open"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(3, 3)
			for _, name := range []string{"a", "b", "c"} {
				c.opens(name, "10.0.0.1")
			}
			test.play(c)
			if got := c.states("a", "b", "c", "d"); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestOneAddress checks that one address has no more connections than it may, and that others are let in then. All
// addresses of a network of 64 bits are one.
func TestOneAddress(t *testing.T) {
	c := newCrowd(100, 2)
	for i, address := range []string{
		"10.0.0.1", "::ffff:10.0.0.1", "10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8::2",
	} {
		c.opens(fmt.Sprint(i), address)
	}
	c.opens("6", "2001:db8::3")
	c.opens("7", "2001:db8:1::1")
	want := "0 closed, 1 open, 2 open, 3 open, 4 closed, 5 open, 6 open, 7 open"
	if got := c.states("0", "1", "2", "3", "4", "5", "6", "7"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, name := range []string{"1", "2"} {
		c.is(name, http.StateActive)
	}
	c.opens("8", "10.0.0.1")
	if got := c.states("8"); got != "8 refused" {
		t.Error(got)
	}
	if c.Ended() != 3 || c.Open() != 6 {
		t.Error(c.Ended(), c.Open())
	}
}

// TestFullIsTold checks that one warning a minute names the address that has most.
func TestFullIsTold(t *testing.T) {
	c := newCrowd(3, 3)
	for i, address := range []string{"10.0.0.1", "10.0.0.7", "10.0.0.7", "10.0.0.3", "10.0.0.4"} {
		c.opens(fmt.Sprint(i), address)
	}
	if got := c.log.String(); strings.Count(got, "connections are full") != 1 ||
		!strings.Contains(got, "address=10.0.0.7 has=2") {
		t.Error(got)
	}
	c.now = c.now.Add(fullEvery)
	c.opens("5", "10.0.0.5")
	if got := c.log.String(); strings.Count(got, "connections are full") != 2 {
		t.Error(got)
	}
}

// TestServerWhileFull checks through a real server that idle connections keep nobody out, and that connections at work
// are left alone.
func TestServerWhileFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memnet.Listen()
		all := newConnections(2, 2, nil)
		var only []bool
		work := make(chan bool)
		s := &http.Server{
			ReadHeaderTimeout: time.Second, ConnState: all.State,
			Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/work" {
					<-work
				}
			}),
			ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
				only = append(only, all.OnlyProbes(conn))
				return ctx
			},
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(Strict(all.Over(inner))) }()
		var conns []net.Conn
		ask := func(path string) string { // the status of the answer, "at work", or "closed"
			conn, err := inner.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
			answer := make(chan string, 1)
			go func() {
				_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					answer <- "closed"
					return
				}
				defer response.Body.Close()
				answer <- response.Status
				_, _ = io.Copy(io.Discard, conn)
			}()
			synctest.Wait()
			select {
			case got := <-answer:
				return got
			default:
				return "at work"
			}
		}
		for range 4 { // each after the second closes an idle one
			if got := ask("/"); got != "200 OK" {
				t.Error(got)
			}
		}
		for range 2 {
			if got := ask("/work"); got != "at work" {
				t.Error(got)
			}
		}
		if got := ask("/"); got != "closed" { // it comes from the address that has most: all are one here
			t.Error(got)
		}
		if fmt.Sprint(only) != "[false false false false false false]" {
			t.Error(only)
		}
		close(work)
		synctest.Wait()
		for _, conn := range conns {
			_ = conn.Close()
		}
		_ = s.Close()
		<-ended
	})
}
