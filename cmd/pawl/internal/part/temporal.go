//go:build !small

package part

import (
	"log/slog"
	"net"

	"github.com/pawl-dev/pawl/internal/temporal"
)

func init() {
	NewGateway = func(s GatewaySettings) Gateway { return temporal.New(temporal.Settings(s)) }
	ServeSDKs = serveSDKs
	Refuse = func(why string) func(net.Conn) { return temporal.Refuse(why).Take }
}

func serveSDKs(log *slog.Logger, guard *Guard, first Gateway, others ...Gateway) SDKs {
	cfg := temporal.ProtocolConfig{Log: log}
	if guard != nil {
		cfg.Guard = &temporal.Guard{Access: guard.Access, Always: guard.Always, Begin: guard.Begin}
	}
	s := sdks{temporal.NewProtocol(cfg, gatewayOf(first))}
	for _, g := range others {
		s.Add(g)
	}
	return s
}

// gatewayOf returns what NewGateway has made.
func gatewayOf(g Gateway) *temporal.Gateway { return g.(*temporal.Gateway) }

// sdks is the protocol as a part.
type sdks struct{ *temporal.Protocol }

// Add serves one more namespace.
func (s sdks) Add(g Gateway) { s.Protocol.Add(gatewayOf(g)) }
