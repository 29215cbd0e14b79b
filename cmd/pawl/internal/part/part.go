// Package part has the parts that the binary can be built without, by -tags small: they are more than a third of what the
// compiler has to do, and a flow on one machine needs none of them. A part is a file here. make weight tells what each
// costs. PostgreSQL is one, too: its file registers with internal/daemon/database.
package part

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/worker"
)

// These make a part. They are nil if the binary was built without it.
var (
	NewGateway func(worker.Clock, *slog.Logger) Gateway
	OpenBucket func(ctx context.Context, address, namespace string) (artifact.Bucket, error)
	NewMetrics func(version string) Metrics
	// OpenTracer returns nil if the environment names no collector.
	OpenTracer func(ctx context.Context, version string, log *slog.Logger) (Tracer, error)
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
