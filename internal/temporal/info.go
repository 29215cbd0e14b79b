package temporal

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	replicationpb "go.temporal.io/api/replication/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// serverVersion is the version of Temporal's server whose protocol this one speaks: SDKs ask for it.
const serverVersion = "1.31.0"

// GetSystemInfo says what the server can do.
func (s *Frontend) GetSystemInfo(
	context.Context, *workflowservice.GetSystemInfoRequest,
) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{
		ServerVersion: serverVersion,
		Capabilities: &workflowservice.GetSystemInfoResponse_Capabilities{
			SignalAndQueryHeader: true, InternalErrorDifferentiation: true, ActivityFailureIncludeHeartbeat: true,
			EncodedFailureAttributes: true, UpsertMemo: true, SdkMetadata: true,
			EagerWorkflowStart: true, CountGroupByExecutionStatus: true,
		},
	}, nil
}

// clusterName is the name of the server: clients show it.
const clusterName = "pawl"

// GetClusterInfo names the server.
func (s *Frontend) GetClusterInfo(
	context.Context, *workflowservice.GetClusterInfoRequest,
) (*workflowservice.GetClusterInfoResponse, error) {
	return &workflowservice.GetClusterInfoResponse{
		ServerVersion: serverVersion, ClusterName: clusterName, ClusterId: namespaceID(Namespace), HistoryShardCount: 1,
		PersistenceStore: clusterName, VisibilityStore: clusterName, InitialFailoverVersion: 1,
		FailoverVersionIncrement: 10,
	}, nil
}

// namespaceID returns the id of a namespace: SDKs want one.
func namespaceID(name string) string {
	if name == Namespace {
		return "00000000-0000-0000-0000-000000000001"
	}
	sum := sha256.Sum256([]byte("namespace\x00" + name))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // a UUID whose bits mean nothing
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// describe describes the namespace.
func (s *Frontend) describe() *workflowservice.DescribeNamespaceResponse {
	kept := s.cfg.Retention
	if kept == 0 { // forever
		kept = 100 * 365 * 24 * time.Hour
	}
	return &workflowservice.DescribeNamespaceResponse{
		NamespaceInfo: &namespacepb.NamespaceInfo{
			Name: s.cfg.Namespace, State: enumspb.NAMESPACE_STATE_REGISTERED, Id: namespaceID(s.cfg.Namespace),
			Capabilities: &namespacepb.NamespaceInfo_Capabilities{
				EagerWorkflowStart: true, SyncUpdate: true, AsyncUpdate: true,
			},
			Limits: &namespacepb.NamespaceInfo_Limits{
				BlobSizeLimitError: maxPayload, MemoSizeLimitError: maxPayload,
			},
		},
		Config: &namespacepb.NamespaceConfig{
			WorkflowExecutionRetentionTtl: durationpb.New(kept),
			HistoryArchivalState:          enumspb.ARCHIVAL_STATE_DISABLED,
			VisibilityArchivalState:       enumspb.ARCHIVAL_STATE_DISABLED,
		},
		// Clients take the name of the active cluster without looking whether there is one.
		ReplicationConfig: &replicationpb.NamespaceReplicationConfig{
			ActiveClusterName: clusterName, State: enumspb.REPLICATION_STATE_NORMAL,
			Clusters: []*replicationpb.ClusterReplicationConfig{{ClusterName: clusterName}},
		},
	}
}

// DescribeNamespace describes a namespace, which is named by its name or its id.
func (s *Frontend) DescribeNamespace(
	ctx context.Context, q *workflowservice.DescribeNamespaceRequest,
) (*workflowservice.DescribeNamespaceResponse, error) {
	if q.Namespace != "" {
		return s.describe(), nil
	}
	if q.Id == "" {
		return nil, serviceerror.NewInvalidArgument("Namespace is not set on request.")
	}
	for _, f := range s.server.namespaces(ctx) {
		if namespaceID(f.cfg.Namespace) == q.Id {
			return f.describe(), nil
		}
	}
	return nil, serviceerror.NewNamespaceNotFound(q.Id)
}

// ListNamespaces lists the namespaces that the caller may use.
func (s *Frontend) ListNamespaces(
	ctx context.Context, _ *workflowservice.ListNamespacesRequest,
) (*workflowservice.ListNamespacesResponse, error) {
	out := &workflowservice.ListNamespacesResponse{}
	for _, f := range s.server.namespaces(ctx) {
		out.Namespaces = append(out.Namespaces, f.describe())
	}
	return out, nil
}

// RegisterNamespace refuses a new namespace: its database would be lost when the server starts without it again.
func (s *Frontend) RegisterNamespace(
	_ context.Context, q *workflowservice.RegisterNamespaceRequest,
) (*workflowservice.RegisterNamespaceResponse, error) {
	if q.Namespace == "" {
		return nil, serviceerror.NewInvalidArgument("Namespace is not set on request.")
	}
	if s.server.front(q.Namespace) != nil {
		return nil, serviceerror.NewNamespaceAlreadyExists("Namespace already exists.")
	}
	return nil, serviceerror.NewFailedPrecondition(fmt.Sprintf(
		"the configuration of the server names its namespaces: add %q to namespaces, and send it SIGHUP", q.Namespace))
}

// UpdateNamespace refuses to change what the configuration of the server says.
func (s *Frontend) UpdateNamespace(
	context.Context, *workflowservice.UpdateNamespaceRequest,
) (*workflowservice.UpdateNamespaceResponse, error) {
	return nil, serviceerror.NewFailedPrecondition("the configuration of the server says what holds for a namespace: " +
		"how long closed workflows are kept is retention there")
}

// ShutdownWorker hears that a worker stops. The workflows that it has in its memory go to others from now on.
func (s *Frontend) ShutdownWorker(
	_ context.Context, q *workflowservice.ShutdownWorkerRequest,
) (*workflowservice.ShutdownWorkerResponse, error) {
	if q.StickyTaskQueue != "" {
		s.tasks.Leave(q.StickyTaskQueue)
	}
	s.pollers.leave(q.Identity)
	return &workflowservice.ShutdownWorkerResponse{}, nil
}
