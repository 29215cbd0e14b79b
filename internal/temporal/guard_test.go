package temporal

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/memnet"
)

// tokens are the tokens of a server by their texts, and its audit log.
type tokens struct {
	mu      sync.Mutex
	all     map[string]api.Token
	audited []api.Audited
}

func unknownToken() error {
	return &api.Error{Code: api.CodeNoToken, Message: "this token is not known"}
}

func (k *tokens) Authenticate(_ context.Context, text string) (api.ShownToken, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, known := k.all[text]
	if !known {
		return api.ShownToken{}, unknownToken()
	}
	return api.ShownToken{Token: t}, nil
}

func (k *tokens) Counts(_ context.Context, t api.Token) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, other := range k.all {
		if other.ID == t.ID {
			return nil
		}
	}
	return unknownToken()
}

func (k *tokens) Tokens(context.Context) (out []api.Token, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range k.all {
		out = append(out, t)
	}
	return out, nil
}

func (k *tokens) Record(e api.Audited) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.audited = append(k.audited, e)
}

func (k *tokens) add(text, role, namespace string, queues ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all[text] = api.Token{ID: "id-" + text, Name: text, Role: role, Namespace: namespace, Queues: queues}
}

func (k *tokens) revoke(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, text)
}

// guarded runs a test with a client of a server that has tokens and the namespaces default and blue.
func guarded(t *testing.T, always bool, test func(b *bed, k *tokens, c workflowservice.WorkflowServiceClient)) {
	bubble(t, func(b *bed) {
		k := &tokens{all: map[string]api.Token{}}
		blue := New(Settings{Clock: b.server.clock, Namespace: "blue"})
		s := NewProtocol(ProtocolConfig{Guard: &Guard{Access: k, Always: always}}, b.server.Gateway, blue)
		l := memnet.Listen()
		go func() { _ = s.Serve(l) }()
		conn, err := grpc.NewClient("passthrough:///memory",
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return l.Dial(ctx, "tcp", "memory")
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = conn.Close()
			_ = s.Close()
			synctest.Wait()
		}()
		test(b, k, workflowservice.NewWorkflowServiceClient(conn))
	})
}

// with returns the context of somebody who shows a token.
func with(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

func startIn(namespace, id string) *workflowservice.StartWorkflowExecutionRequest {
	return &workflowservice.StartWorkflowExecutionRequest{
		Namespace: namespace, WorkflowId: id, WorkflowType: &commonpb.WorkflowType{Name: "Work"},
		TaskQueue: &taskqueuepb.TaskQueue{Name: bedQueue}, Identity: "me@host",
	}
}

// TestRoles checks who may do what: by the role of the token, in its namespace, on its queues.
func TestRoles(t *testing.T) {
	guarded(t, true, func(b *bed, k *tokens, c workflowservice.WorkflowServiceClient) {
		k.add("admin", api.RoleAdmin, api.AllNamespaces)
		k.add("operator", api.RoleOperate, Namespace)
		k.add("reader", api.RoleRead, Namespace)
		k.add("worker", api.RoleWorker, Namespace, bedQueue)
		k.add("blue", api.RoleOperate, "blue")
		ids := 0
		calls := map[string]func(ctx context.Context) error{
			"start": func(ctx context.Context) error {
				ids++
				_, err := c.StartWorkflowExecution(ctx, startIn(Namespace, strings.Repeat("x", ids)))
				return err
			},
			"list": func(ctx context.Context) error {
				_, err := c.ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{
					Namespace: Namespace,
				})
				return err
			},
			"poll": func(ctx context.Context) error {
				_, err := c.PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{
					Namespace: Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: bedQueue},
				})
				return err
			},
			"poll another queue": func(ctx context.Context) error {
				_, err := c.PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{
					Namespace: Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: "other"},
				})
				return err
			},
			"delete": func(ctx context.Context) error {
				_, err := c.DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
					Namespace: Namespace, WorkflowExecution: nobody,
				})
				return err
			},
			"describe": func(ctx context.Context) error {
				_, err := c.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: Namespace})
				return err
			},
		}
		for bearer, may := range map[string]string{
			"admin": "start list poll poll another queue delete describe", "operator": "start list describe",
			"reader": "list describe", "worker": "poll describe", "blue": "", "": "", "forged": "",
		} {
			for name, call := range calls {
				ctx, cancel := context.WithTimeout(with(b.Context(), bearer), 3*time.Second)
				code := status.Code(call(ctx))
				cancel()
				refused := code == codes.PermissionDenied || code == codes.Unauthenticated
				want := slices.Contains(strings.Split(may, " "), name) || name == "poll another queue" &&
					strings.Contains(may, name)
				if refused == want {
					t.Errorf("%q with the token %q: %s", name, bearer, code)
				}
			}
		}
		all, err := c.ListNamespaces(with(b.Context(), "blue"), &workflowservice.ListNamespacesRequest{})
		if err != nil || len(all.Namespaces) != 1 || all.Namespaces[0].NamespaceInfo.Name != "blue" {
			t.Errorf("the namespaces of blue: %s, %v", all, err)
		}
	})
}

// TestRevokedWhileAPollIsOpen checks that the poll of a token that is revoked ends, and gets no task.
func TestRevokedWhileAPollIsOpen(t *testing.T) {
	guarded(t, true, func(b *bed, k *tokens, c workflowservice.WorkflowServiceClient) {
		k.add("worker", api.RoleWorker, Namespace)
		k.add("admin", api.RoleAdmin, Namespace)
		ended := make(chan error)
		go func() {
			poll := &workflowservice.PollWorkflowTaskQueueRequest{
				Namespace: Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: bedQueue},
			}
			_, err := c.PollWorkflowTaskQueue(with(b.Context(), "worker"), poll)
			ended <- err
		}()
		synctest.Wait()
		began := time.Now()
		k.revoke("worker")
		if err := <-ended; status.Code(err) != codes.Unauthenticated {
			t.Errorf("the poll ends with %v", err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it ends after %s", took)
		}
		if _, err := c.StartWorkflowExecution(with(b.Context(), "admin"), startIn(Namespace, "wf")); err != nil {
			t.Fatal(err)
		}
		b.must([2]string{"take", "task: attempt 1, events 1 to 3, the last answered one began with 0\n"})
	})
}

// TestTokensOnLoopback checks that a server which only its machine reaches asks for no token until it has one, and then
// for good.
func TestTokensOnLoopback(t *testing.T) {
	guarded(t, false, func(b *bed, k *tokens, c workflowservice.WorkflowServiceClient) {
		list := func(token string) codes.Code {
			q := &workflowservice.ListWorkflowExecutionsRequest{Namespace: Namespace}
			_, err := c.ListWorkflowExecutions(with(b.Context(), token), q)
			return status.Code(err)
		}
		if code := list(""); code != codes.OK {
			t.Errorf("without tokens: %s", code)
		}
		if code := list("any"); code != codes.OK {
			t.Errorf("a key where there are no tokens: %s", code)
		}
		k.add("reader", api.RoleRead, Namespace)
		<-time.After(2 * time.Second)
		if code := list(""); code != codes.Unauthenticated {
			t.Errorf("with a token: %s", code)
		}
		if code := list("reader"); code != codes.OK {
			t.Errorf("with the token: %s", code)
		}
		k.revoke("reader")
		<-time.After(2 * time.Second)
		if code := list(""); code != codes.Unauthenticated {
			t.Errorf("after the last token was revoked: %s", code)
		}
	})
}

// TestAudit checks that changes are in the audit log, and in the history of the run under the name of the token. What
// was refused is in the log, too; what is read, or done by workers, is not.
func TestAudit(t *testing.T) {
	guarded(t, true, func(b *bed, k *tokens, c workflowservice.WorkflowServiceClient) {
		k.add("ada", api.RoleOperate, Namespace)
		k.add("bob", api.RoleRead, Namespace)
		ada, bob := with(b.Context(), "ada"), with(b.Context(), "bob")
		out, err := c.StartWorkflowExecution(ada, startIn(Namespace, "order-1"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.ListWorkflowExecutions(bob, &workflowservice.ListWorkflowExecutionsRequest{Namespace: Namespace})
		x := &commonpb.WorkflowExecution{WorkflowId: "order-1"}
		end := &workflowservice.TerminateWorkflowExecutionRequest{
			Namespace: Namespace, WorkflowExecution: x, Identity: "cli", Reason: "wrong",
		}
		if _, err := c.TerminateWorkflowExecution(bob, end); status.Code(err) != codes.PermissionDenied {
			t.Errorf("a reader ends a workflow: %v", err)
		}
		if _, err := c.TerminateWorkflowExecution(ada, end); err != nil {
			t.Fatal(err)
		}
		if _, err := c.TerminateWorkflowExecution(ada, end); status.Code(err) != codes.NotFound {
			t.Errorf("again: %v", err)
		}
		var got []string
		for _, e := range k.audited {
			got = append(got, fmt.Sprintln(e.Actor, e.Path[len("/temporal/"):], e.Namespace, e.Status))
		}
		want := []string{
			"ada StartWorkflowExecution/order-1 default 200\n",
			"bob TerminateWorkflowExecution/order-1 default 403\n",
			"ada TerminateWorkflowExecution/order-1 default 200\n",
			"ada TerminateWorkflowExecution/order-1 default 404\n",
		}
		if !slices.Equal(got, want) {
			t.Errorf("the audit log has %q", got)
		}
		id, err := core.ParseRunID(out.RunId)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := b.engine.Entries(b.Context(), id, 0)
		if err != nil {
			t.Fatal(err)
		}
		var actors []string
		for _, e := range entries {
			for _, rec := range e.Records {
				switch rec := rec.(type) {
				case core.RunCreated:
					actors = append(actors, rec.Actor)
				case core.Operated:
					actors = append(actors, rec.Actor)
				}
			}
		}
		if !slices.Equal(actors, []string{"ada (me@host)", "ada (cli)"}) {
			t.Errorf("the history has the actors %q", actors)
		}
	})
}
