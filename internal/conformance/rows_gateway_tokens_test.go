package conformance

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/memnet"
	"github.com/pawl-dev/pawl/internal/temporal"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

func init() { rows["W15"] = gatewayTokens }

// gatewayTokens checks that the API keys of Temporal's clients are the server's tokens: what a role may not do is
// refused, who did what is in the audit log and in the history, and a poll ends when its token is revoked.
func gatewayTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := func() core.Time { return policy.At(time.Now()) }
		j := memory.NewPartitions(3)
		plugin := temporal.New(temporal.Settings{Clock: worker.Clock{Now: now}})
		e, err := engine.New(engine.Config{Journal: j, Kinds: plugin.Kinds(nil, nil), Now: now})
		if err == nil {
			err = plugin.Open(e)
		}
		if err == nil {
			err = e.Open(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		wall := func() api.Time { return api.Time(now()) }
		keeper := access.NewKeeper(journal.Journal(j).(journal.Documents), wall, nil)
		guard := &temporal.Guard{Access: keeper, Always: true}
		server := temporal.NewProtocol(temporal.ProtocolConfig{Guard: guard}, plugin)
		l := memnet.Listen()
		go func() { _ = server.Serve(l) }()
		conn, err := grpc.NewClient("passthrough:///memory",
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return l.Dial(ctx, "tcp", "memory")
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			_, _ = conn.Close(), server.Close()
			plugin.Drain()
			_, _ = keeper.Close(), e.Close()
			plugin.Close()
			synctest.Wait()
		}()
		tryTokens(t, keeper, workflowservice.NewWorkflowServiceClient(conn))
	})
}

func tryTokens(t *testing.T, keeper *access.Keeper, c workflowservice.WorkflowServiceClient) {
	t.Helper()
	as := func(name, role string) context.Context {
		token, err := keeper.CreateToken(t.Context(), api.TokenRequest{Name: name, Role: role})
		if err != nil {
			t.Fatal(err)
		}
		return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token.Token)
	}
	operator, reader, works := as("olga", api.RoleOperate), as("rosa", api.RoleRead), as("wanda", api.RoleWorker)
	start := &workflowservice.StartWorkflowExecutionRequest{
		Namespace: temporal.Namespace, WorkflowId: "w", WorkflowType: &commonpb.WorkflowType{Name: "W"},
		TaskQueue: gatewayQueue, Identity: "me",
	}
	for ctx, want := range map[context.Context]codes.Code{
		t.Context(): codes.Unauthenticated, reader: codes.PermissionDenied, works: codes.PermissionDenied,
	} {
		if _, err := c.StartWorkflowExecution(ctx, start); status.Code(err) != want {
			t.Errorf("a start ends with %v, want %s", err, want)
		}
	}
	if _, err := c.StartWorkflowExecution(operator, start); err != nil {
		t.Fatal(err)
	}
	page, err := c.ListOpenWorkflowExecutions(reader, &workflowservice.ListOpenWorkflowExecutionsRequest{
		Namespace: temporal.Namespace,
	})
	if err != nil {
		t.Errorf("a reader cannot list: %v, %s", err, page)
	}
	ended := make(chan error)
	go func() {
		other := &workflowservice.PollActivityTaskQueueRequest{Namespace: temporal.Namespace, TaskQueue: gatewayQueue}
		_, err := c.PollActivityTaskQueue(works, other)
		ended <- err
	}()
	synctest.Wait()
	revoked := time.Now()
	if err := keeper.RevokeToken(t.Context(), "wanda"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; status.Code(err) != codes.Unauthenticated || time.Since(revoked) > 3*time.Second {
		t.Errorf("the poll of a revoked token ends after %s with %v", time.Since(revoked), err)
	}
	synctest.Wait()
	audit, err := keeper.Audit(t.Context(), api.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, one := range audit.Entries {
		lines = append(lines, one.Actor+" "+one.Path)
	}
	text := strings.Join(lines, "\n")
	for _, who := range []string{"olga", "rosa"} {
		want := who + " /temporal/StartWorkflowExecution/w"
		if !strings.Contains(text, want) {
			t.Errorf("the audit log lacks %q:\n%s", want, text)
		}
	}
}
