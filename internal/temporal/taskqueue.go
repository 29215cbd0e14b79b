package temporal

import (
	"context"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawl-dev/pawl/internal/temporal/convert"
)

// usualPriority is that of tasks that name none.
const usualPriority = 3

// DescribeTaskQueue says which workers ask a queue, and how many tasks wait there.
func (s *Frontend) DescribeTaskQueue(
	ctx context.Context, q *workflowservice.DescribeTaskQueueRequest,
) (*workflowservice.DescribeTaskQueueResponse, error) {
	name, err := queueOf(q.TaskQueue)
	if err != nil {
		return nil, err
	}
	kind := q.TaskQueueType
	if kind == enumspb.TASK_QUEUE_TYPE_UNSPECIFIED {
		kind = enumspb.TASK_QUEUE_TYPE_WORKFLOW
	}
	stats, err := s.backlog(ctx, name, kind)
	if err != nil {
		return nil, err
	}
	out := &workflowservice.DescribeTaskQueueResponse{Pollers: s.pollers.of(name, kind)}
	if q.ReportStats {
		out.Stats = stats
		out.StatsByPriorityKey = map[int32]*taskqueuepb.TaskQueueStats{usualPriority: stats}
	}
	if q.IncludeTaskQueueStatus {
		out.TaskQueueStatus = &taskqueuepb.TaskQueueStatus{BacklogCountHint: stats.ApproximateBacklogCount}
	}
	kinds := q.TaskQueueTypes
	if len(kinds) == 0 {
		kinds = []enumspb.TaskQueueType{kind}
	}
	types := map[int32]*taskqueuepb.TaskQueueTypeInfo{}
	for _, kind := range kinds {
		info := &taskqueuepb.TaskQueueTypeInfo{}
		if q.ReportPollers {
			info.Pollers = s.pollers.of(name, kind)
		}
		if q.ReportStats {
			if info.Stats, err = s.backlog(ctx, name, kind); err != nil {
				return nil, err
			}
		}
		types[int32(kind)] = info
	}
	// Workers without a version are those of the version "".
	out.VersionsInfo = map[string]*taskqueuepb.TaskQueueVersionInfo{"": {TypesInfo: types}}
	return out, nil
}

// backlog returns how many tasks wait in a queue, and how long the oldest one has waited.
func (s *Frontend) backlog(
	ctx context.Context, name string, kind enumspb.TaskQueueType,
) (*taskqueuepb.TaskQueueStats, error) {
	var count int
	var since time.Time
	switch kind {
	case enumspb.TASK_QUEUE_TYPE_WORKFLOW:
		count, since = s.tasks.Waiting(name)
	case enumspb.TASK_QUEUE_TYPE_ACTIVITY:
		all, err := s.engine.Queues(ctx)
		if err != nil {
			return nil, err
		}
		for _, q := range all {
			if q.Queue != convert.QueuePrefix+name {
				continue
			}
			count += q.Waiting
			for _, w := range q.Waits {
				if at := w.Since.Std(); since.IsZero() || at.Before(since) {
					since = at
				}
			}
		}
	default: // nothing waits for other workers
	}
	out := &taskqueuepb.TaskQueueStats{
		ApproximateBacklogCount: int64(count), ApproximateBacklogAge: durationpb.New(0),
	}
	if !since.IsZero() {
		out.ApproximateBacklogAge = durationpb.New(max(s.clock.Now().Std().Sub(since), 0))
	}
	return out, nil
}

// ListTaskQueuePartitions says that a queue has one part: tasks are not spread over several.
func (s *Frontend) ListTaskQueuePartitions(
	_ context.Context, q *workflowservice.ListTaskQueuePartitionsRequest,
) (*workflowservice.ListTaskQueuePartitionsResponse, error) {
	name, err := queueOf(q.TaskQueue)
	if err != nil {
		return nil, err
	}
	one := []*taskqueuepb.TaskQueuePartitionMetadata{{Key: name, OwnerHostName: clusterName}}
	return &workflowservice.ListTaskQueuePartitionsResponse{
		ActivityTaskQueuePartitions: one, WorkflowTaskQueuePartitions: one,
	}, nil
}
