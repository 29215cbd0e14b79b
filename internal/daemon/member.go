package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/pawl-dev/pawl/internal/cluster/share"
	"github.com/pawl-dev/pawl/internal/served"
)

// leaveWithin is how long a node may take to hand over what it owns. After that the others take over when the leases
// have ended.
const leaveWithin = 10 * time.Second

// member is a Go program as a node of a cluster.
type member struct {
	*share.Node
	listener net.Listener
	log      *slog.Logger

	daemon *Daemon // nil if it is not open
	owned  func() []int
}

// NewMember makes a Go program a node of a cluster, which answers the others on a listener.
func NewMember(n *share.Node, l net.Listener, log *slog.Logger) served.Member {
	return &member{Node: n, listener: l, log: log}
}

func (m *member) Open(ctx context.Context, own served.Own) (served.Calls, error) {
	m.owned = own.Engine.Owned
	m.daemon = Over(
		Program{Service: own.Service, Engine: own.Engine, Own: own.Reader, Close: own.Close},
		Config{
			Cluster: &Cluster{Node: m.Node, Listener: m.listener}, Guarded: true, Log: m.log,
		})
	return m.daemon.Routed(), m.daemon.Open(ctx)
}

func (m *member) Relays() bool { return m.Coordinator(m.owned()) }

func (m *member) Close() error {
	if m.daemon == nil {
		return errors.Join(m.listener.Close(), m.Stop())
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
	defer cancel()
	return errors.Join(m.daemon.Leave(ctx), m.daemon.Close())
}
