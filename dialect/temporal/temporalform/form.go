// Package temporalform reads Temporal's options: those of an activity and of a workflow, in flow files below the key
// temporal and in Go programs. It does not need the engine.
//
// The Origin of every limit and retry policy is the name of the field that set it.
package temporalform

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/nearest"
)

// Form returns Temporal's words for flow files, which are below the key temporal.
func Form() flow.Form {
	return flow.Form{
		Key: "temporal", Kinds: []string{"exec", "http", "task", "noop", "fail"}, Schema: schema,
		Step: readStep, Complete: complete, Run: readRun,
	}
}

//go:embed schema.json
var schema []byte

// activityRest are the other fields of an activity's options and of the command that schedules one.
var activityRest = without{
	{"activityId", "a step is known by its name"},
	{"activityType", "the step's own keys say what it does"},
	{"cancellationType", "a cancel waits until the work has stopped"},
	{"disableEagerExecution", "every attempt begins as soon as a worker is free"},
	{"header", "the step's own env, headers or input carry data"},
	{"input", "the step's own keys say what it is given"},
	{"requestEagerExecution", "every attempt begins as soon as a worker is free"},
	{"summary", "write it as the step's description"},
	{"useWorkflowBuildId", "workers have no versions"},
	{"versioningIntent", "workers have no versions"},
	{"waitForCancellation", "a cancel waits until the work has stopped"},
}

// readStep reads the options of an activity. Those that several share need not be complete.
func readStep(fields any, _ string) (flow.Settings, []flow.Note, error) {
	f := decode.Read(fields, slices.Concat(bounds, []string{"taskQueue", "priority"}, activityRest.keys())...)
	s := flow.Settings{Policy: activity(f), Queue: readQueue(f)}
	notes := activityRest.notes(f)
	if f.Has("priority") {
		priority, more, err := readPriority(f.Value("priority"))
		f.Keep("priority", err)
		s.Priority, notes = priority, append(notes, more...)
	}
	return s, notes, f.Err()
}

// readQueue reads a task queue, by its name or as the protocol has it.
func readQueue(f *decode.Fields) string {
	if _, ok := f.Value("taskQueue").(map[string]any); !ok {
		return f.Text("taskQueue")
	}
	q := decode.Read(f.Value("taskQueue"), "name")
	name := q.Text("name")
	f.Keep("taskQueue", q.Err())
	return name
}

// readPriority turns the order round: there 1 comes first and 3 is the default, here the higher number and 0.
func readPriority(v any) (*int32, []flow.Note, error) {
	fair := without{
		{"fairnessKey", "attempts of one priority are taken in the order in which they became ready"},
		{"fairnessWeight", "attempts of one priority are taken in the order in which they became ready"},
	}
	const usual = 3
	f := decode.Read(numbers(v, "priorityKey"), append(fair.keys(), "priorityKey")...)
	key := f.Int("priorityKey", usual, 0, 1000)
	if key == 0 {
		key = usual
	}
	priority := int32(usual - key)
	return &priority, fair.notes(f, "priority"), f.Err()
}

// readRun reads the options of a workflow.
func readRun(fields any) (flow.RunSettings, []flow.Note, error) {
	f := decode.Read(fields, slices.Concat(workflowBounds, workflowRest.keys(), reuseKeys)...)
	w := workflow(f)
	s := flow.RunSettings{
		Limits: flow.RunLimits{Execution: w.Execution, Run: w.Run}, Retry: w.Retry,
		StartDelay: w.StartDelay,
	}
	if w.Schedule != "" {
		s.Chain = &flow.Chain{Schedule: w.Schedule, Zone: w.Zone}
	}
	if w.NotAfterRun {
		s.Retry.On, s.Retry.When = nil, `failure.limit != "run"`
	}
	notes := workflowRest.notes(f)
	if w.Task > 0 {
		notes = append(notes, flow.Note{
			Path: []string{"workflowTaskTimeout"},
			Msg: "workflowTaskTimeout has no counterpart: what a flow does next is decided in the engine, " +
				"no worker takes it",
		})
	}
	return s, append(notes, readReuse(f)...), f.Err()
}

// workflowRest are the other fields of a workflow's options and of the request that starts one.
var workflowRest = without{
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

// reuseKeys are the policies for a start whose workflow id has a run already.
var reuseKeys = []string{"workflowIdReusePolicy", "workflowIdConflictPolicy"}

// readReuse reads them. Here, as by default there, an open run blocks the start, and a closed one does not.
func readReuse(f *decode.Fields) []flow.Note {
	var out []flow.Note
	for _, field := range []struct {
		key, prefix, usual string
		others             []string
	}{
		{
			reuseKeys[0], "WORKFLOW_ID_REUSE_POLICY_", "AllowDuplicate",
			[]string{"AllowDuplicateFailedOnly", "RejectDuplicate", "TerminateIfRunning"},
		},
		{reuseKeys[1], "WORKFLOW_ID_CONFLICT_POLICY_", "Fail", []string{"UseExisting", "TerminateExisting"}},
	} {
		text := f.Text(field.key)
		same := func(name string) bool {
			long, ok := strings.CutPrefix(text, field.prefix)
			return text == name || ok && strings.EqualFold(strings.ReplaceAll(long, "_", ""), name)
		}
		switch {
		case text == "" || same(field.usual) || same("Unspecified"):
		case slices.ContainsFunc(field.others, same):
			out = append(out, flow.Note{
				Path: []string{field.key},
				Msg: field.key + " has no counterpart: a start is refused while a run of the same workflow id is " +
					"open, and only then",
			})
		default:
			f.Keep(field.key, errors.New(unknownChoice(text, append([]string{field.usual}, field.others...))))
		}
	}
	return out
}

func unknownChoice(text string, known []string) string {
	if near := nearest.Hint(text, known); near != "" {
		return fmt.Sprintf("%q is not known; %s", text, near)
	}
	return fmt.Sprintf("%q where one of %s is expected", text, strings.Join(known, ", "))
}

// The type without lists fields of a system that mean nothing here, and why.
type without []struct{ key, why string }

func (w without) keys() []string {
	keys := make([]string, len(w))
	for i, field := range w {
		keys[i] = field.key
	}
	return keys
}

// notes records the given ones as notes.
func (w without) notes(f *decode.Fields, under ...string) []flow.Note {
	var out []flow.Note
	for _, field := range w {
		if f.Has(field.key) {
			path := append(append([]string(nil), under...), field.key)
			out = append(out, flow.Note{Path: path, Msg: field.key + " has no counterpart: " + field.why})
		}
	}
	return out
}
