// Package temporal gives steps and workflows Temporal's options, with Temporal's rules, for programs that come with
// them.
//
//	pawl.Step(ctx, "charge", charge, temporal.Activity(temporal.ActivityOptions{
//		StartToCloseTimeout: 10 * time.Second,
//		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 5},
//	}))
//
// The types have the fields that limit a step or a run in Temporal's SDK. Zero is the default of each.
package temporal

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dialect/temporal/temporalform"
	"github.com/pawl-dev/pawl/internal/cron"
	"github.com/pawl-dev/pawl/internal/option"
)

// RetryPolicy specifies which attempts, or runs, are retried.
type RetryPolicy struct {
	InitialInterval    time.Duration // default 1s
	BackoffCoefficient float64       // minimum 1; default 2
	MaximumInterval    time.Duration // minimum InitialInterval; default a hundred times that
	MaximumAttempts    int32         // number of attempts, the first included; default unlimited
	// NonRetryableErrorTypes are types of errors as registered by [pawl.RegisterError]. For activities also
	// TemporalTimeout:StartToClose and TemporalTimeout:Heartbeat.
	NonRetryableErrorTypes []string
}

// ActivityOptions bound a step. One of StartToCloseTimeout and ScheduleToCloseTimeout must be given.
type ActivityOptions struct {
	ScheduleToCloseTimeout time.Duration // all attempts; default unlimited
	// time until a worker takes the attempt; never retried; default ScheduleToCloseTimeout
	ScheduleToStartTimeout time.Duration
	StartToCloseTimeout    time.Duration // one attempt; default ScheduleToCloseTimeout
	HeartbeatTimeout       time.Duration // time between two heartbeats; default none
	RetryPolicy            *RetryPolicy  // nil: Temporal's default one, attempts without end
}

// Activity gives a step an activity's options. They are its whole policy: they replace the defaults, and later options
// in the list replace a part of them. What is wrong with them the step returns, by the field's name.
func Activity(o ActivityOptions) pawl.StepOption {
	fields := map[string]any{
		"scheduleToCloseTimeout": o.ScheduleToCloseTimeout, "scheduleToStartTimeout": o.ScheduleToStartTimeout,
		"startToCloseTimeout": o.StartToCloseTimeout, "heartbeatTimeout": o.HeartbeatTimeout,
	}
	if o.RetryPolicy != nil {
		fields["retryPolicy"] = o.RetryPolicy.fields()
	}
	return option.Policy(temporalform.Policy(fields)).(pawl.StepOption)
}

func (r *RetryPolicy) fields() map[string]any {
	return map[string]any{
		"initialInterval": r.InitialInterval, "backoffCoefficient": r.BackoffCoefficient,
		"maximumInterval": r.MaximumInterval, "maximumAttempts": int(r.MaximumAttempts),
		"nonRetryableErrorTypes": r.NonRetryableErrorTypes,
	}
}

// WorkflowOptions bound and repeat the runs of a workflow. A start delay is an option of the start: [pawl.StartAt].
type WorkflowOptions struct {
	WorkflowExecutionTimeout time.Duration // the chain of runs; default unlimited
	WorkflowRunTimeout       time.Duration // one run; default WorkflowExecutionTimeout
	WorkflowTaskTimeout      time.Duration // the body between its steps; default 10s, at most 2m
	RetryPolicy              *RetryPolicy  // nil: none
	CronSchedule             string        // "0 12 * * *", "CRON_TZ=Europe/Berlin 0 12 * * *"; default none
}

// Workflow gives a workflow's definition Temporal's options. What is wrong with them its Err returns.
func Workflow(o WorkflowOptions) pawl.Option {
	opts, err := o.options()
	return option.Several(opts, err).(pawl.Option)
}

func (o WorkflowOptions) options() ([]pawl.Option, error) {
	fields := map[string]any{
		"workflowExecutionTimeout": o.WorkflowExecutionTimeout, "workflowRunTimeout": o.WorkflowRunTimeout,
		"workflowTaskTimeout": o.WorkflowTaskTimeout, "cronSchedule": o.CronSchedule,
	}
	if o.RetryPolicy != nil {
		fields["retryPolicy"] = o.RetryPolicy.fields()
	}
	w, f := temporalform.ReadWorkflow(fields)
	if w.NotAfterRun {
		f.Fail("retryPolicy",
			"nonRetryableErrorTypes: TemporalTimeout:StartToClose has no counterpart: a run that took too long is "+
				"retried like one that failed")
	}
	var out []pawl.Option
	if w.Execution != nil {
		out = append(out, pawl.ExecutionTimeout(w.Execution.After))
	}
	if w.Run != nil {
		out = append(out, pawl.RunTimeout(w.Run.After))
	}
	if w.Task > 0 {
		out = append(out, pawl.TaskTimeout(w.Task))
	}
	if r := w.Retry; r != nil {
		out = append(out, pawl.RunRetry(pawl.RetryPolicy{
			MaxAttempts: r.MaxAttempts, InitialInterval: r.InitialInterval, BackoffCoefficient: r.BackoffCoefficient,
			MaxInterval: r.MaxInterval, NonRetryable: r.NonRetryable,
		}))
	}
	if w.Schedule != "" {
		out = append(out, option.Cron(cron.Written{Cron: w.Schedule, Zone: w.Zone}).(pawl.Option))
	}
	return out, f.Err()
}
