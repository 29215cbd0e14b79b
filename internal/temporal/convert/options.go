package convert

import (
	"errors"
	"fmt"
	"time"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawl-dev/pawl/dialect/temporal/temporalform"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/cron"
	"github.com/pawl-dev/pawl/policy"
)

// QueuePrefix is what the queues of activities begin with, so that no other worker gets their tasks.
const QueuePrefix = "temporal/"

// longest is how long a timeout may be at most; a longer one is cut.
const longest = 100 * 365 * 24 * time.Hour

// form has options as their dialect reads them.
type form map[string]any

// duration adds a duration, unless it is zero. What is no whole number of milliseconds is rounded up: time is stored
// by the microsecond, and policies are in milliseconds.
func (f form) duration(key string, d *durationpb.Duration) error {
	if d == nil || d.Seconds == 0 && d.Nanos == 0 {
		return nil
	}
	switch {
	case d.Seconds < 0 || d.Nanos < 0:
		return fmt.Errorf("%s: negative duration", key)
	case d.Nanos >= int32(time.Second):
		return fmt.Errorf("%s: the nanoseconds are more than a second", key)
	}
	amount := longest
	if d.Seconds < int64(longest/time.Second) {
		amount = d.AsDuration()
	}
	f[key] = (amount + time.Millisecond - 1).Truncate(time.Millisecond)
	return nil
}

// retry adds a retry policy; nil: none.
func (f form) retry(p *commonpb.RetryPolicy) error {
	if p == nil {
		return nil
	}
	in := form{}
	err := errors.Join(
		in.duration("initialInterval", p.InitialInterval), in.duration("maximumInterval", p.MaximumInterval),
	)
	if p.BackoffCoefficient != 0 {
		in["backoffCoefficient"] = p.BackoffCoefficient
	}
	if p.MaximumAttempts != 0 {
		in["maximumAttempts"] = int(p.MaximumAttempts)
	}
	if len(p.NonRetryableErrorTypes) > 0 {
		types := make([]any, len(p.NonRetryableErrorTypes))
		for i, name := range p.NonRetryableErrorTypes {
			types[i] = name
		}
		in["nonRetryableErrorTypes"] = types
	}
	f["retryPolicy"] = map[string]any(in)
	return err
}

// Policy returns what bounds an activity.
func Policy(a *commandpb.ScheduleActivityTaskCommandAttributes) (policy.Policy, error) {
	f := form{}
	err := errors.Join(
		f.duration("scheduleToCloseTimeout", a.ScheduleToCloseTimeout),
		f.duration("scheduleToStartTimeout", a.ScheduleToStartTimeout),
		f.duration("startToCloseTimeout", a.StartToCloseTimeout),
		f.duration("heartbeatTimeout", a.HeartbeatTimeout),
		f.retry(a.RetryPolicy), CheckPriority(a.Priority),
	)
	if err != nil {
		return policy.Policy{}, err
	}
	return temporalform.Policy(map[string]any(f))
}

// Rules returns what holds for a run with such an input as a whole.
func Rules(start *workflowservice.StartWorkflowExecutionRequest) (core.RunRules, error) {
	f := form{}
	err := errors.Join(
		f.duration("workflowExecutionTimeout", start.WorkflowExecutionTimeout),
		f.duration("workflowRunTimeout", start.WorkflowRunTimeout),
		f.duration("workflowTaskTimeout", start.WorkflowTaskTimeout),
		f.duration("workflowStartDelay", start.WorkflowStartDelay),
		f.retry(start.RetryPolicy), CheckPriority(start.Priority),
	)
	if err != nil {
		return core.RunRules{}, err
	}
	if start.CronSchedule != "" {
		f["cronSchedule"] = start.CronSchedule
	}
	w, fields := temporalform.ReadWorkflow(map[string]any(f))
	rules := core.RunRules{Retry: w.Retry, Execution: w.Execution, Run: w.Run}
	if w.Schedule != "" && fields.Err() == nil {
		rules.Follows, err = timetable(w.Schedule, w.Zone)
	}
	return rules, errors.Join(fields.Err(), err)
}

// timetable returns when the runs of a cron schedule begin: at its firings after the run before began, without those
// that have passed meanwhile.
func timetable(schedule, zone string) (func(firing, began, now core.Time) core.Time, error) {
	t, err := cron.Written{Cron: schedule, Zone: zone}.Parse()
	if err != nil {
		return nil, err
	}
	return func(_, began, now core.Time) core.Time {
		next := t.Following(began.Std(), now.Std())
		if next.IsZero() {
			return 0
		}
		return policy.At(next)
	}, nil
}

// RulesOf returns the rules of a run by its stored input.
func RulesOf(input []byte) core.RunRules {
	start := &workflowservice.StartWorkflowExecutionRequest{}
	if proto.Unmarshal(input, start) != nil {
		return core.RunRules{}
	}
	rules, err := Rules(start)
	if err != nil {
		return core.RunRules{} // such a start is refused
	}
	return rules
}

// maxTask is how long a worker may take for a workflow task at most, and usualTask where nothing is said.
const (
	maxTask   = 2 * time.Minute
	usualTask = 10 * time.Second
)

// TaskTimeout returns how long a worker may take for a workflow task of the run.
func TaskTimeout(start *workflowservice.StartWorkflowExecutionRequest) time.Duration {
	d := start.GetWorkflowTaskTimeout().AsDuration()
	if d <= 0 {
		d = usualTask
	}
	d = min(d, maxTask)
	if run := start.GetWorkflowRunTimeout().AsDuration(); run > 0 {
		d = min(d, run)
	}
	return d
}

// FillActivity fills in the options of an activity that are not given, and cuts those that are longer than an outer
// one, as the history shows them: schedule-to-start and start-to-close are no longer than schedule-to-close, a
// heartbeat timeout no longer than start-to-close, and all of them no longer than the run.
func FillActivity(
	a *commandpb.ScheduleActivityTaskCommandAttributes, start *workflowservice.StartWorkflowExecutionRequest,
) {
	run := start.GetWorkflowRunTimeout().AsDuration()
	if d := a.ScheduleToCloseTimeout.AsDuration(); d > 0 {
		a.ScheduleToStartTimeout = shorter(a.ScheduleToStartTimeout, d)
		a.StartToCloseTimeout = shorter(a.StartToCloseTimeout, d)
	}
	for _, d := range []**durationpb.Duration{
		&a.ScheduleToCloseTimeout, &a.ScheduleToStartTimeout, &a.StartToCloseTimeout,
	} {
		*d = shorter(*d, run)
	}
	if d := a.HeartbeatTimeout.AsDuration(); d > 0 {
		a.HeartbeatTimeout = shorter(a.HeartbeatTimeout, a.StartToCloseTimeout.AsDuration())
	} else {
		a.HeartbeatTimeout = durationpb.New(0)
	}
	a.RetryPolicy = FillRetry(a.RetryPolicy)
	if a.TaskQueue.GetName() == "" {
		a.TaskQueue = start.GetTaskQueue()
	}
}

// shorter returns a timeout that is no longer than an outer one; zero: there is no outer one.
func shorter(d *durationpb.Duration, outer time.Duration) *durationpb.Duration {
	switch own := d.AsDuration(); {
	case outer > 0 && (own == 0 || own > outer):
		return durationpb.New(outer)
	case d == nil:
		return durationpb.New(0)
	default:
		return d
	}
}

// FillRetry returns a retry policy with the defaults of what it does not say.
func FillRetry(p *commonpb.RetryPolicy) *commonpb.RetryPolicy {
	if p == nil {
		p = &commonpb.RetryPolicy{}
	}
	out := proto.Clone(p).(*commonpb.RetryPolicy)
	if out.InitialInterval.AsDuration() == 0 {
		out.InitialInterval = durationpb.New(time.Second)
	}
	if out.BackoffCoefficient == 0 {
		out.BackoffCoefficient = 2
	}
	if out.MaximumInterval.AsDuration() == 0 {
		first := out.InitialInterval.AsDuration()
		out.MaximumInterval = durationpb.New(100 * min(first, longest/100))
	}
	return out
}

// Priority returns the priority of something that a workflow begins: what it does not say is the workflow's.
func Priority(workflow, own *commonpb.Priority) *commonpb.Priority {
	switch {
	case own == nil:
		return workflow
	case workflow == nil:
		return own
	}
	out := proto.Clone(own).(*commonpb.Priority)
	if out.PriorityKey == 0 {
		out.PriorityKey = workflow.PriorityKey
	}
	if out.FairnessKey == "" {
		out.FairnessKey = workflow.FairnessKey
	}
	if out.FairnessWeight == 0 {
		out.FairnessWeight = workflow.FairnessWeight
	}
	return out
}

// CheckPriority refuses a priority that makes no sense.
func CheckPriority(p *commonpb.Priority) error {
	switch {
	case p.GetPriorityKey() < 0:
		return errors.New("priority key can't be negative")
	case p.GetFairnessWeight() < 0:
		return errors.New("fairness weight can't be negative")
	case len(p.GetFairnessKey()) > mostFairness:
		return fmt.Errorf("fairness key length exceeds limit of %d bytes", mostFairness)
	default:
		return nil
	}
}

// mostFairness bounds the key of a fair share, in bytes.
const mostFairness = 64
