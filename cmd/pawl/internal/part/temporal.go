//go:build !small

package part

import (
	"log/slog"

	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/temporal"
	"github.com/pawl-dev/pawl/internal/worker"
)

func init() {
	NewGateway = func(clock worker.Clock, log *slog.Logger) Gateway { return sdks{temporal.New(clock, log)} }
}

// sdks is the gateway as a part.
type sdks struct{ *temporal.Gateway }

// Frontend returns the server of the protocol.
func (s sdks) Frontend() daemon.Protocol { return s.Gateway.Frontend() }
