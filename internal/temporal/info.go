package temporal

import (
	"context"
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
		ServerVersion: serverVersion, ClusterName: clusterName, ClusterId: namespaceID, HistoryShardCount: 1,
		PersistenceStore: clusterName, VisibilityStore: clusterName, InitialFailoverVersion: 1,
		FailoverVersionIncrement: 10,
	}, nil
}

// namespaceID is the id of the only namespace: SDKs want one.
const namespaceID = "00000000-0000-0000-0000-000000000001"

func namespace() *workflowservice.DescribeNamespaceResponse {
	const kept = 100 * 365 * 24 * time.Hour // pawl server --retention says how long closed runs are kept
	return &workflowservice.DescribeNamespaceResponse{
		NamespaceInfo: &namespacepb.NamespaceInfo{
			Name: Namespace, State: enumspb.NAMESPACE_STATE_REGISTERED, Id: namespaceID,
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

// DescribeNamespace describes the only namespace.
func (s *Frontend) DescribeNamespace(
	_ context.Context, q *workflowservice.DescribeNamespaceRequest,
) (*workflowservice.DescribeNamespaceResponse, error) {
	if q.Namespace == "" && q.Id == "" {
		return nil, serviceerror.NewInvalidArgument("Namespace is not set on request.")
	}
	if q.Namespace != Namespace && q.Id != namespaceID {
		return nil, serviceerror.NewNamespaceNotFound(q.Namespace + q.Id)
	}
	return namespace(), nil
}

// ListNamespaces lists the only one.
func (s *Frontend) ListNamespaces(
	context.Context, *workflowservice.ListNamespacesRequest,
) (*workflowservice.ListNamespacesResponse, error) {
	return &workflowservice.ListNamespacesResponse{
		Namespaces: []*workflowservice.DescribeNamespaceResponse{namespace()},
	}, nil
}

// RegisterNamespace refuses another one.
func (s *Frontend) RegisterNamespace(
	_ context.Context, q *workflowservice.RegisterNamespaceRequest,
) (*workflowservice.RegisterNamespaceResponse, error) {
	if q.Namespace == Namespace {
		return nil, serviceerror.NewNamespaceAlreadyExists("Namespace already exists.")
	}
	return nil, serviceerror.NewUnimplemented("the only namespace is " + Namespace)
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
