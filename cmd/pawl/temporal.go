package main

import (
	"context"
	"errors"
	"net"

	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/part"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/worker"
)

// temporalFlag is the flag that makes a server speak Temporal's protocol.
const temporalFlag = "temporal"

// addTemporal adds the flag.
func (a serverVerbs) addTemporal(flags *pflag.FlagSet) {
	settings(flags, func(flags *pflag.FlagSet) {
		flags.StringVar(&a.temporal, temporalFlag, "", "loopback address and port for workers and clients of "+
			"Temporal's SDKs, such as 127.0.0.1:7233 (default: none)")
	})
}

// gatewayOf returns the kind of the workflows of Temporal's SDKs. Each engine has the kind, so that such runs go on
// while no server listens for their workers. It returns nil if this binary was built without it.
func gatewayOf(a *app, m *machine) part.Gateway {
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
	return part.NewGateway(clock, log)
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
	sdks, err := listenLoopback(ctx, temporalFlag, a.temporal, "127.0.0.1:7233")
	if err != nil {
		return listeners{}, errors.Join(err, http.Close())
	}
	return listeners{http, sdks}, nil
}

// serve serves the connections of the listeners.
func (m *machine) serve(l listeners) {
	m.Listen(l.http, nil)
	if l.sdks != nil {
		m.Listen(l.sdks, m.gateway.Frontend())
	}
}

// plugins adds the gateway to the plugins of a machine's daemon, if this binary has it.
func (m *machine) plugins(flows kind.Plugin) []kind.Plugin {
	if m.gateway == nil {
		return []kind.Plugin{flows}
	}
	return []kind.Plugin{flows, m.gateway}
}
