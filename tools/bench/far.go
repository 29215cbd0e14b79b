package main

import (
	"context"
	"net"
	"net/url"
	"sync"
	"time"
)

// far simulates a distant database server: data arrives later by a fixed time, each way.
type far struct {
	address *url.URL // the server's address for this way
	to      string
	delay   time.Duration
	listen  net.Listener
	pumps   sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func newFar(ctx context.Context, address *url.URL, delay time.Duration) (*far, error) {
	listen, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	by := *address
	by.Host = listen.Addr().String()
	f := &far{address: &by, to: address.Host, delay: delay, listen: listen}
	f.pumps.Go(func() { f.accept(ctx) })
	return f, nil
}

// close ends all connections.
func (f *far) close() {
	_ = f.listen.Close()
	f.mu.Lock()
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.pumps.Wait()
}

func (f *far) accept(ctx context.Context) {
	for {
		here, err := f.listen.Accept()
		if err != nil {
			return
		}
		there, err := new(net.Dialer).DialContext(ctx, "tcp", f.to)
		if err != nil {
			_ = here.Close()
			continue
		}
		f.mu.Lock()
		f.conns = append(f.conns, here, there)
		f.mu.Unlock()
		f.pumps.Go(func() { f.pass(there, here) })
		f.pumps.Go(func() { f.pass(here, there) })
	}
}

// parcel is the data of one read, and when it arrives.
type parcel struct {
	bytes []byte
	due   time.Time
}

// pass passes on the data of one side. It goes on reading while parcels are on their way, so that many of them are at
// the same time, as on a long cable.
func (f *far) pass(to, from net.Conn) {
	way := make(chan parcel, 1024)
	f.pumps.Go(func() {
		defer func() { _ = to.Close() }()
		for p := range way {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				break
			}
		}
		for range way { // the reader must not wait
		}
	})
	defer close(way)
	for {
		room := make([]byte, 64<<10)
		n, err := from.Read(room)
		if n > 0 {
			way <- parcel{room[:n], time.Now().Add(f.delay)}
		}
		if err != nil {
			return
		}
	}
}
