package temporal

import (
	"log/slog"
	"sync"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/temporal/activities"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
	"github.com/pawl-dev/pawl/internal/temporal/history"
	"github.com/pawl-dev/pawl/internal/temporal/tasks"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// Gateway is the kind of workflows of Temporal's SDKs, as a plugin of a node. Frontend makes what serves the protocol.
type Gateway struct {
	kind.Base

	clock  worker.Clock
	log    *slog.Logger
	engine *engine.Engine
	tasks  *tasks.Keeper
	queues *activities.Queues

	drain   sync.Once
	drained chan struct{} // closed by Drain
}

var _ kind.Plugin = (*Gateway)(nil)

// New returns a gateway. The clock is the engine's; without a log nothing is logged.
func New(clock worker.Clock, log *slog.Logger) *Gateway {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{
		clock: clock, log: log, tasks: tasks.New(clock.Now, log), queues: activities.New(clock),
		drained: make(chan struct{}),
	}
	g.tasks.SeatEagerly(g.queues.Expect)
	return g
}

// definition is that of all workflows: what holds for a run is in its input.
var definition = &core.Definition{
	NewDecider: func(*core.Run) core.Decider { return decider{} }, HasBody: true, Answers: true,
	ChildID: childID, Rules: convert.RulesOf, Successor: successor, InputAfter: convert.InputAfter,
	ShowInput: convert.ShowInput, ShowValue: convert.ShowValue,
}

func init() { kind.Describe(history.Kind, kind.Traits{Shown: definition}) }

func (g *Gateway) Kinds(journal.Journal, func(string) (journal.Definition, error)) map[string]engine.Kind {
	compile := func(journal.Definition) (*core.Definition, error) { return definition, nil }
	return map[string]engine.Kind{history.Kind: {Compile: compile, Child: readChild, Bodies: g.tasks}}
}

func (g *Gateway) Open(e *engine.Engine) error {
	g.engine = e
	g.tasks.Attach(e)
	g.queues.Attach(e)
	e.ServeRemote("", g.queues)
	return nil
}

func (g *Gateway) Drain() {
	g.drain.Do(func() { close(g.drained) })
	g.tasks.Drain()
	g.queues.Close()
}

func (g *Gateway) Close() { g.queues.Forget() }

// decider asks the worker of the workflow.
type decider struct{}

func (decider) Decide(r *core.Run, _ []core.StepID, _ core.Time) []core.Command {
	if r.Closing != nil {
		return nil // it has no hooks
	}
	return []core.Command{core.Consult{}}
}

func (decider) Match(*core.Run, *core.Step, string, *policy.Failure, []byte, core.Time) judge.Match {
	return judge.Match{} // its policies have no conditions
}

// Task implements core.Decider. It returns what the worker of an activity gets, except for the token, or how a child
// workflow is started.
func (decider) Task(r *core.Run, s *core.Step, now core.Time) ([]byte, *policy.Failure) {
	if s.Spec.Kind == core.KindChild {
		return childOf(r, s)
	}
	a := &commandpb.ScheduleActivityTaskCommandAttributes{}
	if err := proto.Unmarshal(s.Spec.Input, a); err != nil {
		return nil, unreadable(err)
	}
	start := &workflowservice.StartWorkflowExecutionRequest{}
	if err := proto.Unmarshal(r.Input, start); err != nil {
		return nil, unreadable(err)
	}
	out, err := proto.Marshal(&workflowservice.PollActivityTaskQueueResponse{
		WorkflowNamespace: Namespace, WorkflowType: start.WorkflowType,
		WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: r.WorkflowID, RunId: r.ID.String()},
		ActivityType:      a.ActivityType, ActivityId: a.ActivityId, Header: a.Header, Input: a.Input,
		ScheduledTime: stamp(s.ScheduledAt), CurrentAttemptScheduledTime: stamp(s.ReadyAt), StartedTime: stamp(now),
		Attempt: int32(s.Counted), HeartbeatDetails: convert.Payloads(s.Details),
		ScheduleToCloseTimeout: a.ScheduleToCloseTimeout, StartToCloseTimeout: a.StartToCloseTimeout,
		HeartbeatTimeout: a.HeartbeatTimeout, RetryPolicy: a.RetryPolicy,
		Priority: convert.Priority(start.Priority, a.Priority),
	})
	if err != nil {
		return nil, unreadable(err)
	}
	return out, nil
}

func unreadable(err error) *policy.Failure {
	return &policy.Failure{Kind: policy.KindFailed, Type: "unreadable", Message: err.Error(), NonRetryable: true}
}

func stamp(at core.Time) *timestamppb.Timestamp { return timestamppb.New(at.Std()) }
