package dialect

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/policy"
)

// temporalBounds are the fields of an activity's options that bound it.
var temporalBounds = []string{
	"retryPolicy", "scheduleToStartTimeout", "startToCloseTimeout", "scheduleToCloseTimeout", "heartbeatTimeout",
}

// temporalActivity are the other fields of an activity's options and of the command that schedules one.
var temporalActivity = without{
	{"activityId", "a step is known by its name"},
	{"activityType", "what a step does stands in the step"},
	{"cancellationType", "a cancel waits until the work has stopped"},
	{"disableEagerExecution", "every attempt begins as soon as a worker is free"},
	{"header", "the step's own env, headers or input carry data"},
	{"input", "what a step is given stands in the step"},
	{"requestEagerExecution", "every attempt begins as soon as a worker is free"},
	{"summary", "write it as the step's description"},
	{"useWorkflowBuildId", "workers have no versions"},
	{"versioningIntent", "workers have no versions"},
	{"waitForCancellation", "a cancel waits until the work has stopped"},
}

// temporal is the policy of an activity.
func temporal(v any) (policy.Policy, error) {
	f := policy.ReadFields(v, temporalBounds...)
	p := temporalPolicy(f)
	if f.Err() != nil {
		return policy.Policy{}, f.Err()
	}
	if err := temporalComplete(p); err != nil {
		return policy.Policy{}, err
	}
	return p, nil
}

// temporalStep reads the options of an activity. Those that several share need not be complete.
func temporalStep(fields any, _ string) (flow.Settings, []flow.Note, error) {
	f := policy.ReadFields(fields, slices.Concat(temporalBounds, []string{"taskQueue", "priority"}, temporalActivity.keys())...)
	s := flow.Settings{Policy: temporalPolicy(f), Queue: temporalQueue(f)}
	notes := temporalActivity.notes(f)
	if f.Has("priority") {
		priority, more, err := temporalPriority(f.Value("priority"))
		f.Keep("priority", err)
		s.Priority, notes = priority, append(notes, more...)
	}
	return s, notes, f.Err()
}

// temporalComplete refuses an activity that nothing bounds.
func temporalComplete(p policy.Policy) error {
	if p.Get(policy.LimitScheduleToClose) == nil && p.Get(policy.LimitStartToClose) == nil {
		return &policy.FieldError{Msg: "startToCloseTimeout or scheduleToCloseTimeout must be given"}
	}
	return nil
}

// temporalPolicy bounds an activity by four timeouts. Its server fills in those that are not given and cuts those that
// are longer than an outer one: schedule-to-start and start-to-close to schedule-to-close, a heartbeat timeout to
// start-to-close, all of them to the run. What is as long as its outer one never fires by itself and is left out here.
func temporalPolicy(f *policy.Fields) policy.Policy {
	retry, never, err := temporalRetry(f.Value("retryPolicy"))
	f.Keep("retryPolicy", err)

	var p policy.Policy
	p.Retry = retry
	p.ScheduleToClose = temporalLimit(f, "scheduleToCloseTimeout", false, nil)
	p.ScheduleToStart = temporalLimit(f, "scheduleToStartTimeout", false, p.ScheduleToClose)
	p.StartToClose = temporalLimit(f, "startToCloseTimeout", !slices.Contains(never, "StartToClose"), p.ScheduleToClose)
	outer := p.StartToClose
	if outer == nil {
		outer = p.ScheduleToClose
	}
	// A heartbeat timeout that is cut stays: the worker reports heartbeats as often as it needs, and the next attempt reads them.
	p.Heartbeat = temporalLimit(f, "heartbeatTimeout", !slices.Contains(never, "Heartbeat"), nil)
	if p.Heartbeat != nil && outer != nil && p.Heartbeat.After > outer.After {
		p.Heartbeat.After, p.Heartbeat.Origin = outer.After, outer.Origin
	}
	return p
}

// temporalLimit reads one timeout; absent, zero or not shorter than the outer one is none.
func temporalLimit(f *policy.Fields, key string, retry bool, outer *policy.Limit) *policy.Limit {
	after := temporalDuration(f, key)
	if after == 0 || outer != nil && after >= outer.After {
		return nil
	}
	return &policy.Limit{After: after, Retry: retry, Origin: key}
}

// temporalRetry retries without end unless told otherwise; zero stands for a field's default. never are the timeouts
// that the policy lists as not retryable. Where there is one attempt only, what the others say is not looked at.
func temporalRetry(v any) (r *policy.Retry, never []string, err error) {
	f := policy.ReadFields(v, "initialInterval", "backoffCoefficient", "maximumInterval", "maximumAttempts",
		"nonRetryableErrorTypes")
	r = policy.DefaultRetry()
	r.MaxAttempts, r.Origin = f.Int("maximumAttempts", 0, 0, math.MaxInt32), "retryPolicy"
	r.On = []policy.Kind{policy.KindError, policy.KindFailed, policy.KindTimeout}
	once := r.MaxAttempts == 1
	if r.MaxAttempts == 0 {
		r.MaxAttempts = policy.Unlimited
	}
	if !once {
		temporalDelays(f, r)
	}
	for i, name := range f.Texts("nonRetryableErrorTypes") {
		timeout, ok := strings.CutPrefix(name, "TemporalTimeout:")
		switch {
		case !ok:
			r.NonRetryable = append(r.NonRetryable, name)
		case once || slices.Contains(temporalTimeouts, timeout):
			never = append(never, timeout)
		default:
			f.Keep("nonRetryableErrorTypes", &policy.FieldError{
				Path: []string{fmt.Sprint(i)},
				Msg:  fmt.Sprintf("there is no timeout %q; after TemporalTimeout: stands one of %s", timeout, strings.Join(temporalTimeouts, ", ")),
			})
		}
	}
	return r, never, f.Err()
}

// temporalTimeouts may stand behind TemporalTimeout: among the types that are not retried. The first two are retried
// otherwise.
var temporalTimeouts = []string{"StartToClose", "Heartbeat", "ScheduleToStart", "ScheduleToClose"}

func temporalDelays(f *policy.Fields, r *policy.Retry) {
	r.InitialInterval = temporalDuration(f, "initialInterval")
	r.BackoffCoefficient = f.Number("backoffCoefficient", 0, 0, math.MaxFloat64)
	r.MaxInterval = temporalDuration(f, "maximumInterval")
	if r.InitialInterval == 0 {
		r.InitialInterval = time.Second
	}
	switch {
	case r.BackoffCoefficient == 0:
		r.BackoffCoefficient = 2
	case r.BackoffCoefficient < 1:
		f.Fail("backoffCoefficient", "%v is below 1", r.BackoffCoefficient)
	}
	switch {
	case r.MaxInterval >= r.InitialInterval:
	case r.MaxInterval > 0:
		f.Fail("maximumInterval", "%s is below the initialInterval of %s",
			duration.Format(r.MaxInterval), duration.Format(r.InitialInterval))
	case r.InitialInterval <= math.MaxInt64/100 && r.Longest() > 100*r.InitialInterval:
		r.MaxInterval = 100 * r.InitialInterval // where some delay would be longer
	}
}

// temporalDuration reads Pawl's grammar, Go's ("1.5s", as the JSON of its protocol has it), and a number of
// milliseconds; absent is zero.
func temporalDuration(f *policy.Fields, key string) time.Duration {
	text, ok := f.Value(key).(string)
	if !ok {
		return f.Duration(key, 0)
	}
	d, err := duration.Parse(text)
	if err == nil {
		return d
	}
	d, goErr := time.ParseDuration(text)
	switch {
	case goErr != nil:
		f.Keep(key, err)
	case d < 0:
		f.Fail(key, "%s is negative", text)
	case d%time.Millisecond != 0:
		f.Fail(key, "%s is not a whole number of milliseconds", text)
	}
	return d
}

// temporalQueue reads a task queue, by its name or as the protocol has it.
func temporalQueue(f *policy.Fields) string {
	if _, ok := f.Value("taskQueue").(map[string]any); !ok {
		return f.Text("taskQueue")
	}
	q := policy.ReadFields(f.Value("taskQueue"), "name")
	name := q.Text("name")
	f.Keep("taskQueue", q.Err())
	return name
}

// temporalPriority turns the order round: there 1 comes first and 3 is the default, here the higher number and 0.
func temporalPriority(v any) (*int32, []flow.Note, error) {
	fair := without{
		{"fairnessKey", "attempts of one priority are taken in the order in which they became ready"},
		{"fairnessWeight", "attempts of one priority are taken in the order in which they became ready"},
	}
	const usual = 3
	f := policy.ReadFields(v, append(fair.keys(), "priorityKey")...)
	key := f.Int("priorityKey", usual, 0, 1000)
	if key == 0 {
		key = usual
	}
	priority := int32(usual - key)
	return &priority, fair.notes(f, "priority"), f.Err()
}

// temporalRun reads the options of a workflow.
func temporalRun(fields any) (flow.RunSettings, []flow.Note, error) {
	f := policy.ReadFields(fields, slices.Concat(temporalWorkflow, temporalWorkflowOther.keys())...)
	var s flow.RunSettings
	s.Limits.Execution = temporalLimit(f, "workflowExecutionTimeout", false, nil)
	s.Limits.Run = temporalLimit(f, "workflowRunTimeout", false, s.Limits.Execution)
	notes := temporalWorkflowOther.notes(f)
	if temporalDuration(f, "workflowTaskTimeout") > 0 {
		notes = append(notes, flow.Note{Path: []string{"workflowTaskTimeout"}, Msg: "workflowTaskTimeout has no counterpart: what a flow does next is decided in the engine, no worker takes it"})
	}
	if f.Has("retryPolicy") {
		retry, never, err := temporalRetry(f.Value("retryPolicy"))
		f.Keep("retryPolicy", err)
		if slices.Contains(never, "StartToClose") {
			retry.On, retry.When = nil, `failure.limit != "run"` // as which a run that took too long is judged
		}
		s.Retry = retry
	}
	notes = append(notes, temporalReuse(f)...)
	return s, notes, f.Err()
}

// temporalWorkflow are the fields of a workflow's options that mean something here.
var temporalWorkflow = []string{
	"workflowExecutionTimeout", "workflowRunTimeout", "workflowTaskTimeout", "retryPolicy", "workflowIdReusePolicy",
	"workflowIdConflictPolicy",
}

var temporalWorkflowOther = without{
	{"header", "a run has its input"},
	{"identity", "who starts a run is in its history"},
	{"input", "it is given at the start: pawl run --input"},
	{"links", "runs are linked by their chain and their parents only"},
	{"memo", "the run's input and output are shown with it"},
	{"priority", "steps have priorities: defaults: {temporal: {priority: …}}"},
	{"requestEagerExecution", "every run begins at once"},
	{"requestId", "a start is made once by its key: pawl run --key"},
	{"searchAttributes", "runs are found by their workflow, workflow id and phase"},
	{"staticDetails", "write it as the flow's description"},
	{"staticSummary", "write it as the flow's description"},
	{"taskQueue", "steps have queues: defaults: {temporal: {taskQueue: …}}"},
	{"userMetadata", "write it as the flow's description"},
	{"versioningOverride", "a run keeps the flow it was started with"},
	{"workflowId", "it is given at the start: pawl run --id"},
	{"workflowType", "it is the flow's name"},
}

// temporalReuse looks at what is to happen where there is a run of the same workflow id: here as by default there, one
// that is open is in the way, one that has ended is not.
func temporalReuse(f *policy.Fields) []flow.Note {
	var out []flow.Note
	for _, field := range []struct {
		key, prefix, usual string
		others             []string
	}{
		{"workflowIdReusePolicy", "WORKFLOW_ID_REUSE_POLICY_", "AllowDuplicate", []string{"AllowDuplicateFailedOnly", "RejectDuplicate", "TerminateIfRunning"}},
		{"workflowIdConflictPolicy", "WORKFLOW_ID_CONFLICT_POLICY_", "Fail", []string{"UseExisting", "TerminateExisting"}},
	} {
		text := f.Text(field.key)
		same := func(name string) bool {
			long, ok := strings.CutPrefix(text, field.prefix)
			return text == name || ok && strings.EqualFold(strings.ReplaceAll(long, "_", ""), name)
		}
		switch {
		case text == "" || same(field.usual) || same("Unspecified"):
		case slices.ContainsFunc(field.others, same):
			out = append(out, flow.Note{Path: []string{field.key}, Msg: field.key + " has no counterpart: a start is refused while a run of the same workflow id is open, and only then"})
		default:
			f.Keep(field.key, errors.New(unknownChoice(text, append([]string{field.usual}, field.others...))))
		}
	}
	return out
}

func unknownChoice(text string, known []string) string {
	if near := flow.Nearest(text, known); near != "" {
		return fmt.Sprintf("%q is not known; %s", text, near)
	}
	return fmt.Sprintf("%q where one of %s is expected", text, strings.Join(known, ", "))
}
