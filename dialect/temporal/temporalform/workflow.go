package temporalform

import (
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/cron"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/policy"
)

// maxTask is the longest timeout of a workflow task; a longer one is cut.
const maxTask = 2 * time.Minute

// workflowBounds are the fields of a workflow's options that bound, repeat and delay its runs.
var workflowBounds = []string{
	"workflowExecutionTimeout", "workflowRunTimeout", "workflowTaskTimeout", "retryPolicy", "cronSchedule",
	"workflowStartDelay", "startDelay",
}

// WorkflowOptions limits, repeats and delays the runs of a Temporal workflow.
type WorkflowOptions struct {
	Execution, Run *policy.Limit
	Task           time.Duration // 0: the default, 10s
	Retry          *policy.Retry // nil: none
	// NotAfterRun: a run that took too long is not retried.
	NotAfterRun bool
	Schedule    string // a cron expression; "": none
	Zone        string // its time zone; "": UTC
	StartDelay  time.Duration
}

// ReadWorkflow reads a workflow's options. What is wrong with them the fields' Err returns, to which the caller may
// add.
func ReadWorkflow(v any) (WorkflowOptions, *decode.Fields) {
	f := decode.Read(v, workflowBounds...)
	return workflow(f), f
}

// workflow reads what bounds the runs. The run timeout is shortened to the execution timeout, which ends the run
// itself, so it is left out unless it is shorter.
func workflow(f *decode.Fields) WorkflowOptions {
	var w WorkflowOptions
	w.Execution = readLimit(f, "workflowExecutionTimeout", false, nil)
	w.Run = readLimit(f, "workflowRunTimeout", false, w.Execution)
	w.Task = min(readDuration(f, "workflowTaskTimeout"), maxTask)
	if f.Has("retryPolicy") {
		retry, never, err := readRetry(f.Value("retryPolicy"))
		f.Keep("retryPolicy", err)
		w.Retry = retry
		for _, timeout := range never {
			w.NotAfterRun = w.NotAfterRun || timeout == "StartToClose" // as which it is judged there
		}
	}
	w.Schedule, w.Zone = readCron(f)
	key := "workflowStartDelay"
	if f.Has("startDelay") {
		if f.Has(key) {
			f.Fail("startDelay", "workflowStartDelay says it already")
		}
		key = "startDelay"
	}
	w.StartDelay = readDuration(f, key)
	if w.Schedule != "" && w.StartDelay > 0 {
		f.Fail(key, "a workflow with a cronSchedule has no start delay")
	}
	return w
}

// readCron reads a cron expression, which may begin with a time zone: CRON_TZ=Asia/Tokyo 0 9 * * *.
func readCron(f *decode.Fields) (schedule, zone string) {
	const key = "cronSchedule"
	schedule = strings.TrimSpace(f.Text(key))
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if rest, ok := strings.CutPrefix(schedule, prefix); ok {
			zone, schedule, _ = strings.Cut(rest, " ")
			schedule = strings.TrimSpace(schedule)
			break
		}
	}
	if schedule == "" && zone == "" {
		return "", ""
	}
	schedule = strings.ReplaceAll(schedule, "?", "*")
	_, err := cron.Parse(schedule)
	f.Keep(key, err)
	_, err = cron.ParseZone(zone)
	f.Keep(key, err)
	return schedule, zone
}
