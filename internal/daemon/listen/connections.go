package listen

import (
	"net"
	"sync"
)

// connectionLimit returns how many connections a server may have, given the total number of file descriptors. The rest
// is for its work: each process of a step needs some, and so do the database and the requests that steps make. Where
// there are few, three quarters are for the work: a server whose callers leave none begins no step.
func connectionLimit(descriptors uint64, processes int) int {
	const forEach, forServer = 8, 128
	reserve := min(uint64(forServer+forEach*processes), descriptors/4*3)
	return int(min(descriptors-reserve, 1<<20))
}

// Bounded returns a listener with as many connections at once as this process can serve beside the given number of
// processes of steps, if the system limits that, and at most most; 0: unlimited.
func Bounded(l net.Listener, processes, most int) net.Listener {
	if n := descriptors(); n > 0 {
		if can := connectionLimit(n, processes); most == 0 || can < most {
			most = can
		}
	}
	if most > 0 {
		return bound(l, most)
	}
	return l
}

// boundedListener accepts no connection while it has as many open as it may. Others wait until one is closed.
type boundedListener struct {
	net.Listener
	room   chan struct{}
	closed chan struct{}
	once   sync.Once
}

// bound returns a listener with at most that many open connections.
func bound(l net.Listener, most int) net.Listener {
	return &boundedListener{Listener: l, room: make(chan struct{}, most), closed: make(chan struct{})}
}

func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &boundedConn{Conn: conn, leave: sync.OnceFunc(func() { <-l.room })}, nil
}

func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// boundedConn is a connection that makes room when it is closed.
type boundedConn struct {
	net.Conn
	leave func()
}

func (c *boundedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
