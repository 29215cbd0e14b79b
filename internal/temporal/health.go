package temporal

import (
	"context"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// health answers probes: of Kubernetes, of load balancers, and of Temporal's command.
type health struct {
	healthpb.UnimplementedHealthServer
	of *Gateway
}

// healthEvery is how often a watcher's status is looked at.
const healthEvery = time.Second

// Check implements healthpb.HealthServer.
func (h health) Check(_ context.Context, q *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if !known(q.Service) {
		return nil, status.Errorf(codes.NotFound, "unknown service %q", q.Service)
	}
	return &healthpb.HealthCheckResponse{Status: h.status()}, nil
}

// known reports whether the health of a service can be asked for; empty: that of the server as a whole.
func known(service string) bool {
	return service == "" || service == workflowservice.WorkflowService_ServiceDesc.ServiceName
}

// status reports whether work is taken at present.
func (h health) status() healthpb.HealthCheckResponse_ServingStatus {
	select {
	case <-h.of.drained:
		return healthpb.HealthCheckResponse_NOT_SERVING
	default:
	}
	if h.of.engine.Err() != nil || h.of.engine.Stats().Stalled != "" {
		return healthpb.HealthCheckResponse_NOT_SERVING
	}
	return healthpb.HealthCheckResponse_SERVING
}

// Watch implements healthpb.HealthServer.
func (h health) Watch(
	q *healthpb.HealthCheckRequest, stream grpc.ServerStreamingServer[healthpb.HealthCheckResponse],
) error {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	last := healthpb.HealthCheckResponse_UNKNOWN
	for {
		now := h.status()
		if !known(q.Service) {
			now = healthpb.HealthCheckResponse_SERVICE_UNKNOWN
		}
		if now != last {
			if err := stream.Send(&healthpb.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			last = now
		}
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-h.of.drained:
			if last == healthpb.HealthCheckResponse_NOT_SERVING {
				return status.Error(codes.Unavailable, "the server stops")
			}
		case <-tick.C:
		}
	}
}
