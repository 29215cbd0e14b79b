package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/part"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/daemon/listen"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/worker"
)

const (
	// temporalFlag is the flag that makes a server speak Temporal's protocol.
	temporalFlag = "temporal"
	// temporalClientsFlag names who signs the certificates of its clients.
	temporalClientsFlag = "temporal-client-ca"
)

// addTemporal adds the flag of pawl dev.
func (a serverVerbs) addTemporal(flags *pflag.FlagSet) {
	settings(flags, func(flags *pflag.FlagSet) {
		flags.StringVar(&a.temporal, temporalFlag, "", "loopback address and port for workers and clients of "+
			"Temporal's SDKs, such as 127.0.0.1:7233 (default: none)")
	})
}

// addTemporalServer adds the flags of pawl server.
func (a serverVerbs) addTemporalServer(flags *pflag.FlagSet, g *guarding) {
	flags.StringVar(&a.temporal, temporalFlag, "", "address and port for workers and clients of Temporal's SDKs, "+
		"such as 0.0.0.0:7233; their API keys are tokens (default: none)")
	flags.StringVar(&g.clientCA, temporalClientsFlag, "",
		"file with the certificates that sign those of Temporal's clients, which then have to show one")
}

// gatewayOf returns the kind of the workflows of Temporal's SDKs. Each engine has the kind, so that such runs go on
// while no server listens for their workers. It returns nil if this binary was built without it.
func gatewayOf(a *app, m *machine, retention time.Duration) part.Gateway {
	if part.NewGateway == nil {
		return nil
	}
	clock := worker.Clock{Stands: a.virtual, Now: func() core.Time {
		if m.clock != nil {
			return m.clock.Now()
		}
		return now()
	}}
	log := a.peopleLog() // where this is pawl dev
	if a.guard != nil {
		log = a.guard.log
	}
	return part.NewGateway(part.GatewaySettings{
		Clock: clock, Log: log, Namespace: m.place.Namespace, Retention: retention,
	})
}

// listeners are the listeners of a server.
type listeners struct {
	http net.Listener
	sdks net.Listener // the listener for Temporal's SDKs; nil if there is none
}

// close closes them.
func (l listeners) close() error {
	if l.sdks == nil {
		return l.http.Close()
	}
	return errors.Join(l.http.Close(), l.sdks.Close())
}

// listen listens at the addresses of a server.
func (a serverVerbs) listen(ctx context.Context, g *guarding) (listeners, error) {
	l, err := g.open(ctx, a.processes())
	if err != nil {
		return listeners{}, err
	}
	return a.besides(ctx, l)
}

// besides adds the listener for Temporal's SDKs, if it was asked for. If that fails, it closes the other one.
func (a serverVerbs) besides(ctx context.Context, http net.Listener) (listeners, error) {
	if a.temporal == "" {
		return listeners{http: http}, nil
	}
	if part.NewGateway == nil {
		missing := part.Missing("Temporal's protocol")
		return listeners{}, errors.Join(http.Close(), usage("--%s: %w", temporalFlag, missing))
	}
	if g := a.guard; g != nil && g.sharing.listen != "" {
		return listeners{}, errors.Join(http.Close(), usage(
			"--%s: the nodes of a cluster do not share the tasks of such workers yet", temporalFlag))
	}
	sdks, err := a.listenTemporal(ctx)
	if err != nil {
		return listeners{}, errors.Join(err, http.Close())
	}
	return listeners{http, sdks}, nil
}

// temporalExample is how the address for Temporal's SDKs is written.
const temporalExample = "127.0.0.1:7233"

// listenTemporal listens for Temporal's SDKs. Others than this machine reach pawl server with TLS only; on this machine
// it takes connections without, too.
func (a serverVerbs) listenTemporal(ctx context.Context) (net.Listener, error) {
	g := a.guard
	if g == nil {
		return listenLoopback(ctx, temporalFlag, a.temporal, temporalExample)
	}
	host, _, err := net.SplitHostPort(a.temporal)
	if err != nil {
		return nil, usage("--%s %q: write it as %s", temporalFlag, a.temporal, temporalExample)
	}
	g.temporalLocal = isLoopback(host)
	port := listen.GRPC{
		Certificate: g.certs, Log: g.log, Plain: g.temporalLocal || g.insecure,
		Refuse: part.Refuse("this port takes connections with TLS only: switch TLS on in the client"),
	}
	switch {
	case g.clientCA != "" && g.certs == nil:
		return nil, usage("--%s is for a server with --tls-cert", temporalClientsFlag)
	case g.clientCA != "":
		if port.Clients, err = listen.ReadClients(g.clientCA); err != nil {
			return nil, usage("--%s: %v", temporalClientsFlag, err)
		}
		port.Plain = false
	case !port.Plain && g.certs == nil:
		return nil, usage("--%s %s: other machines reach this address, and tokens would be sent without encryption; "+
			"give --tls-cert and --tls-key, or --insecure behind a proxy that has TLS", temporalFlag, a.temporal)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", a.temporal)
	if err != nil {
		return nil, inUse(temporalFlag, a.temporal, err)
	}
	return port.Over(g.connections.OverBusy(l)), nil
}

// isLoopback reports whether only this machine reaches the addresses of a host.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// serve serves the connections of the listeners.
func (a serverVerbs) serve(m *machine, l listeners) {
	m.Listen(l.http, nil)
	if l.sdks == nil {
		return
	}
	log := a.peopleLog()
	var guard *part.Guard
	if g := a.guard; g != nil {
		log = g.log
		// A certificate of their own admits clients where there are no tokens.
		guard = &part.Guard{Access: m.Access(), Always: !g.temporalLocal && g.clientCA == "", Begin: m.Begin}
	}
	m.sdks = part.ServeSDKs(log, guard, m.gateway, m.others...)
	m.Listen(l.sdks, m.sdks)
}

// plugins adds the gateway to the plugins of a machine's daemon, if this binary has it.
func (m *machine) plugins(flows kind.Plugin) []kind.Plugin {
	if m.gateway == nil {
		return []kind.Plugin{flows}
	}
	return []kind.Plugin{flows, m.gateway}
}
