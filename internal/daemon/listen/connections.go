package listen

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultMost is how many connections a listener has at once unless it is told otherwise. An idle one takes some
	// 36 kB after a request with a long header.
	DefaultMost = 4096
	// oneAddress is the part of all connections that one address may have, and leastEach is how many it always may:
	// others are let in, too.
	oneAddress = 0.75
	leastEach  = 64
	// fullEvery is the pause between two warnings that connections are full.
	fullEvery = time.Minute
)

// Bounds limit the connections of a listener. The zero value means the defaults.
type Bounds struct {
	// Processes is how many processes of steps run at once. Each needs file descriptors, which connections leave free.
	Processes int
	// Most is how many connections there are at once. Default: DefaultMost, or what file descriptors allow.
	Most int
	// Each is how many of these one address may have. Default: three quarters, 64 at least.
	Each int
	// Log is told when connections are full. nil: nobody is.
	Log *slog.Logger
}

// Connections are the connections of a listener. When there are as many as there may be, the one that has been idle for
// longest is closed, of the address that has most. When none is idle, a new connection from the address that has most
// is closed at once. Any other may only ask whether the server is alive and ready, see OnlyProbes.
type Connections struct {
	most, each, reserve int
	log                 *slog.Logger

	mu    sync.Mutex
	open  map[*conn]struct{}
	of    map[netip.Addr]int // how many each address has
	told  time.Time
	now   func() time.Time
	ended atomic.Int64
}

// NewConnections returns connections within bounds, of which there are none yet.
func NewConnections(b Bounds) *Connections {
	most := cmp.Or(b.Most, DefaultMost)
	if n := descriptors(); n > 0 {
		most = min(most, connectionLimit(n, b.Processes))
	}
	return newConnections(most, b.Each, b.Log)
}

func newConnections(most, each int, log *slog.Logger) *Connections {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	each = cmp.Or(each, max(leastEach, int(float64(most)*oneAddress)))
	return &Connections{
		most: most, each: min(each, most), reserve: max(1, most/64), log: log, now: time.Now,
		open: map[*conn]struct{}{}, of: map[netip.Addr]int{},
	}
}

// connectionLimit returns how many connections a server may have, given the total number of file descriptors. The rest
// is for its work: each process of a step needs some, and so do the database and the requests that steps make. Where
// there are few, three quarters are for the work: a server whose callers leave none begins no step.
func connectionLimit(descriptors uint64, processes int) int {
	const forEach, forServer = 8, 128
	reserve := min(uint64(forServer+forEach*processes), descriptors/4*3)
	return int(min(descriptors-reserve, 1<<20))
}

// Open returns how many connections are open.
func (c *Connections) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// Ended returns how many connections were closed because there were too many.
func (c *Connections) Ended() int64 { return c.ended.Load() }

// Over returns a listener whose connections are counted and bounded.
func (c *Connections) Over(l net.Listener) net.Listener { return counted{l, c, http.StateNew} }

// OverBusy is Over for a protocol whose connections are always at work, and so never closed for others.
func (c *Connections) OverBusy(l net.Listener) net.Listener { return counted{l, c, http.StateActive} }

type counted struct {
	net.Listener
	all   *Connections
	begin http.ConnState // the state of a new connection
}

// Accept returns the next connection that is let in.
func (l counted) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if admitted := l.all.admit(inner, l.begin); admitted != nil {
			return admitted, nil
		}
		_ = inner.Close() // it is one too many
	}
}

// conn is a counted connection.
type conn struct {
	net.Conn
	all    *Connections
	from   netip.Addr
	state  http.ConnState
	since  time.Time // when it came to its state
	probes bool      // it may only ask how the server is
	left   bool      // it is not counted any more
}

// admit counts a connection, after making room for it. It returns nil if there is no room.
func (c *Connections) admit(inner net.Conn, begin http.ConnState) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &conn{Conn: inner, all: c, from: addressOf(inner), since: c.now(), state: begin}
	var victim *conn
	switch {
	case c.of[n.from] >= c.each:
		if victim = c.idlest(n.from); victim == nil {
			c.tell(n.from)
			return nil
		}
	case len(c.open) >= c.most:
		victim = c.idlest(netip.Addr{})
		full := len(c.open) >= c.most+c.reserve
		if victim == nil && (full || c.of[n.from] > 0 && c.of[n.from] == c.largest()) {
			c.tell(n.from)
			return nil
		}
		n.probes = victim == nil
	}
	if victim != nil {
		c.tell(victim.from)
		c.forget(victim)
		_ = victim.Conn.Close() // the server learns of it by its next read
	}
	c.open[n] = struct{}{}
	c.of[n.from]++
	return n
}

// idlest returns the connection that is closed for a new one: of an address, or of the one that has most. It is the one
// that has been idle for longest, or else the one that has been opened without a whole request for longest.
func (c *Connections) idlest(from netip.Addr) (found *conn) {
	for n := range c.open {
		switch {
		case n.state == http.StateActive || from.IsValid() && n.from != from:
		case found == nil || c.before(n, found):
			found = n
		}
	}
	return found
}

// before reports whether a connection is closed rather than another one.
func (c *Connections) before(n, than *conn) bool {
	return cmp.Or(
		cmp.Compare(c.of[than.from], c.of[n.from]),
		cmp.Compare(rank(n.state), rank(than.state)),
		n.since.Compare(than.since),
	) < 0
}

// rank orders the states: an idle connection can be closed at no cost, a new one may be about to ask.
func rank(s http.ConnState) int {
	if s == http.StateIdle {
		return 0
	}
	return 1
}

// largest returns how many connections the address has that has most.
func (c *Connections) largest() (most int) {
	for _, n := range c.of {
		most = max(most, n)
	}
	return most
}

// tell warns that connections are full, once in a while. ended is the address whose connection is closed.
func (c *Connections) tell(ended netip.Addr) {
	c.ended.Add(1)
	now := c.now()
	if now.Sub(c.told) < fullEvery {
		return
	}
	c.told = now
	var from netip.Addr
	for address, n := range c.of {
		if !from.IsValid() || n > c.of[from] {
			from = address
		}
	}
	c.log.Warn("connections are full: idle ones are closed", "open", len(c.open), "most", c.most,
		"each", c.each, "address", from, "has", c.of[from], "closed", ended)
}

// State notes the state of a connection, for the ConnState of an http.Server.
func (c *Connections) State(inner net.Conn, state http.ConnState) {
	n := connOf(inner)
	if n == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n.state, n.since = state, c.now()
}

// OnlyProbes reports whether a connection was let in although connections are full, so that it may only ask whether the
// server is alive and ready.
func (*Connections) OnlyProbes(inner net.Conn) bool {
	n := connOf(inner)
	return n != nil && n.probes
}

// connOf returns the counted connection within another one; nil if there is none.
func connOf(inner net.Conn) *conn {
	for {
		switch outer := inner.(type) {
		case *conn:
			return outer
		case *strictConn:
			inner = outer.Conn
		case *strictTLS:
			inner = outer.Conn
		case *tls.Conn:
			inner = outer.NetConn()
		default:
			return nil
		}
	}
}

// Close closes the connection, and makes room.
func (n *conn) Close() error {
	n.all.mu.Lock()
	n.all.forget(n)
	n.all.mu.Unlock()
	return n.Conn.Close()
}

// forget stops counting a connection.
func (c *Connections) forget(n *conn) {
	if n.left {
		return
	}
	n.left = true
	delete(c.open, n)
	if c.of[n.from]--; c.of[n.from] == 0 {
		delete(c.of, n.from)
	}
}

// addressOf returns the address of the other side, without its port. One of the local machine has none.
func addressOf(c net.Conn) netip.Addr {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.IPv6Unspecified()
	}
	address := tcp.AddrPort().Addr().Unmap()
	if address.Is6() { // whoever has an address there has all of a network of 64 bits
		if network, err := address.Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return address
}
