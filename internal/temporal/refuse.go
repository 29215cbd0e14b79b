package temporal

import (
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// Refuser answers all requests of connections that are not taken with the reason. Clients show it: of a connection that
// is closed they only say that it was.
type Refuser struct {
	grpc  *grpc.Server
	conns chan net.Conn
}

// refusedFor is how long a connection that is not taken is kept.
const refusedFor = 10 * time.Second

// Refuse returns a refuser that gives a reason.
func Refuse(why string) *Refuser {
	r := &Refuser{conns: make(chan net.Conn)}
	r.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(1<<10), grpc.MaxConcurrentStreams(10),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: refusedFor, MaxConnectionAgeGrace: time.Second,
		}),
		grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
			return status.Error(codes.FailedPrecondition, why)
		}),
	)
	go func() { _ = r.grpc.Serve(untaken{r}) }()
	return r
}

// Take answers the requests of a connection, and closes it after a while.
func (r *Refuser) Take(conn net.Conn) { r.conns <- conn }

// untaken is the listener of the connections that are not taken.
type untaken struct{ *Refuser }

// Accept implements net.Listener.
func (r untaken) Accept() (net.Conn, error) { return <-r.conns, nil }

// Close implements net.Listener.
func (untaken) Close() error { return nil }

// Addr implements net.Listener.
func (untaken) Addr() net.Addr { return &net.TCPAddr{} }
