//go:build !small

package part

import "github.com/pawl-dev/pawl/internal/metrics"

func init() {
	NewMetrics = func(version string) Metrics { return measured{metrics.New(version)} }
}

// measured are the metrics of one namespace as a part.
type measured struct{ *metrics.Metrics }

// In returns the metrics of another namespace of this process.
func (m measured) In(namespace string) Metrics { return measured{m.Metrics.In(namespace)} }
