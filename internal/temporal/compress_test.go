package temporal

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/stats"

	"github.com/pawl-dev/pawl/internal/memnet"
)

// headers counts the answers that a client gets, and those of them that are compressed.
type headers struct{ all, compressed atomic.Int32 }

func (h *headers) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (h *headers) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (h *headers) HandleConn(context.Context, stats.ConnStats)                       {}
func (h *headers) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InHeader); ok {
		h.all.Add(1)
		if in.Compression != "" && in.Compression != "identity" {
			h.compressed.Add(1)
		}
	}
}

// TestAnswersAreNotCompressed checks that a client which compresses its requests gets answers that are not: both are on
// one machine.
func TestAnswersAreNotCompressed(t *testing.T) {
	bubble(t, func(b *bed) {
		l := memnet.Listen()
		go func() { _ = b.server.server.Serve(l) }()
		var got headers
		conn, err := grpc.NewClient("passthrough:///memory", grpc.WithStatsHandler(&got),
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return l.Dial(ctx, "tcp", "memory")
			}))
		if err != nil {
			b.Fatal(err)
		}
		_, err = workflowservice.NewWorkflowServiceClient(conn).GetSystemInfo(b.Context(),
			&workflowservice.GetSystemInfoRequest{})
		if err != nil || got.all.Load() != 1 || got.compressed.Load() != 0 {
			b.Errorf("%d answers, %d of them compressed, %v", got.all.Load(), got.compressed.Load(), err)
		}
		_ = conn.Close()
		_ = b.server.server.Close()
		synctest.Wait()
	})
}
