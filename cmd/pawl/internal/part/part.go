// Package part has the parts that the binary can be built without, by -tags small. They are a third of the compiler's
// work, and a flow on one machine needs none of them. A part is a file here. make weight tells what each costs.
// PostgreSQL is one, too: its file registers with internal/daemon/database.
package part

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/worker"
)

// These make a part. A binary that was built without it has no gateway and no metrics, and refuses the others.
var (
	NewGateway func(worker.Clock, *slog.Logger) Gateway
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

// Gateway is the kind of the workflows of Temporal's SDKs, and the protocol that their programs speak.
type Gateway interface {
	kind.Plugin
	Frontend() daemon.Protocol
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
