// Package part has the parts that the binary can be built without, by -tags small. They are a third of the compiler's
// work, and a flow on one machine needs none of them. A part is a file here. make weight tells what each costs.
// PostgreSQL is one, too: its file registers with internal/daemon/database.
package part

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/worker"
)

// These make a part. A binary that was built without it has no gateway and no metrics, and refuses the others.
var (
	NewGateway func(GatewaySettings) Gateway
	// ServeSDKs serves gateways whose engines are open. The first one answers requests without a namespace.
	ServeSDKs func(log *slog.Logger, guard *Guard, first Gateway, others ...Gateway) SDKs
	// Refuse returns what tells the client of a connection why it is not taken, and closes it.
	Refuse     func(why string) func(net.Conn)
	NewMetrics func(version string) Metrics
	OpenBucket = func(_ context.Context, address, namespace string) (artifact.Bucket, error) {
		return nil, Missing("S3")
	}
	// OpenTracer returns nil if the environment names no collector.
	OpenTracer = func(_ context.Context, version string, _ *slog.Logger) (Tracer, error) {
		for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
			if os.Getenv(variable) != "" {
				return nil, fmt.Errorf("%s: %w", variable, Missing("OpenTelemetry"))
			}
		}
		return nil, nil
	}
)

// Gateway is the kind of the workflows of Temporal's SDKs.
type Gateway interface{ kind.Plugin }

// GatewaySettings are those of a gateway.
type GatewaySettings struct {
	Clock     worker.Clock  // the clock of the engine
	Log       *slog.Logger  // nil: nothing is logged
	Namespace string        // the name by which clients know the engine's database; empty: the default one
	Retention time.Duration // how long closed runs are kept; 0: forever
}

// SDKs is the protocol that the programs of Temporal's SDKs speak.
type SDKs interface {
	daemon.Protocol
	// Add serves one more namespace.
	Add(Gateway)
}

// Guard decides which clients of the protocol may ask what.
type Guard struct {
	Access *access.Keeper
	Always bool // each client shows a token, also while the server has none
	// Begin counts a request of a token, or refuses it; waits: it may stay open for long.
	Begin func(token api.Token, waits bool) (end func(), err error)
}

// Metrics are the metrics of a server in one namespace.
type Metrics interface {
	daemon.Metrics
	In(namespace string) Metrics
	Observer() engine.Observer
	ReadCertificate(left func() time.Duration)
	ReadConnections(open func() int, ended func() int64)
}

// Tracer sends spans.
type Tracer interface {
	Observer(next engine.Observer) engine.Observer
	Parent(core.Task) string
	Close(context.Context) error
}

// Missing returns the error for a part that this binary does not have.
func Missing(part string) error {
	return fmt.Errorf("this program was built without %s: use one that was built without -tags small", part)
}
