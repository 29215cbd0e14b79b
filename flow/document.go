package flow

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// formatVersion is the version of the document format, the value of `pawl:`.
const formatVersion = 1

// Document is a flow. One that Parse returned is complete and is not to be changed; one may also be built in code,
// field by field, and is checked when it is compiled.
type Document struct {
	File        string // the file's name in errors
	Name        string // name of the workflow
	Description string
	// Input is the JSON Schema of the input; true allows any. Absent: the flow takes the keys that its expressions use.
	Input tree.Value
	RunSettings
	Queue *RunQueue // the queue of its runs; nil if there is none
	// Secrets are the names of the secrets that steps may refer to, by ${{ secrets.NAME }}.
	Secrets []string
	// Env are the variables that steps may refer to, by ${{ env.NAME }}, of the environment of the process that
	// executes them, with their values where they are not set; nil if they must be set. The processes of exec steps get
	// those with a value, too.
	Env map[string]*string
	// Dotenv are the paths of files with such variables, one NAME=value in each line. They are read when a step is
	// executed.
	Dotenv []string
	// FailFast ends a run with the first step, or item of one, that fails: what runs is stopped, nothing more begins.
	FailFast bool
	// Newest: a run that is started with the workflow id of an open run takes its place, when that was cancelled and
	// has ended.
	Newest   bool
	Defaults Settings
	Queues   []*Queue
	Services []*Service
	Steps    []*Step
	Hooks    Hooks
	Notify   []*Notify
	Output   tree.Value
	// Variables are more variables for the document's expressions, which a dialect's own language defines.
	Variables []Variable
	// Notes are the fields that Parse read in another system's words and that have no counterpart.
	Notes []Note
	// Form is the key of the form in whose words the flow is written: the one at its top, or otherwise the only one
	// that Parse found. It is "" if there is none, or several in its steps.
	Form string
	// Words is the system in whose words runs are also shown, beside Pawl's: that of the document from which the flow
	// was made. "" if there is none.
	Words string
	// Place is the place of the flow itself in the document of another system from which it was made, in the form of
	// Step.Place.
	Place string

	pos     tree.Pos
	src     *tree.Source
	whens   map[*policy.Retry]*tree.Node // places of the conditions of retry policies
	amounts map[*policy.Limit]*tree.Node // places of the amounts of limits that are expressions
	// declared are the places of secrets and variables, by their kind and name as [referTo] writes them.
	declared map[string]tree.Pos
	built    *definition

	templates map[string]*template // as Parse read them: the settings of their steps are resolved
	files     map[string]string    // see Files
}

// RunSettings limit the runs of a flow and decide when another one follows.
type RunSettings struct {
	Limits RunLimits
	Retry  *policy.Retry // retry policy of the run; nil if there is none
	Cron   *Cron         // nil: the flow has no schedule
	Chain  *Chain        // nil: no run follows another one on its own
	// StartDelay is the time between the start of a run and its beginning. The execution's limit runs meanwhile, the
	// run's begins with the run.
	StartDelay time.Duration
}

// Cron specifies when runs of the flow begin on their own. Such a flow has a schedule, with its name. Each firing
// starts a run that is independent of the others.
type Cron struct {
	Schedule string        // minute hour day month weekday, @daily, "@every 90m"; several are separated by semicolons
	Except   string        // dates on which it does not fire, separated by semicolons
	Zone     string        // IANA name; "": UTC
	Skipped  string        // local times that the clocks skip: shift to the change, the default, or skip
	Repeated string        // local times that the clocks show twice: first, the default, or both
	Overlap  string        // a firing while an earlier run is open: skip, the default, queue, cancel, allow or newest
	CatchUp  time.Duration // how late a firing may be; default a minute
	Jitter   time.Duration // each firing is delayed by a part of it
	NotAfter string        // a time of day after which no run begins or goes on
	// MaxFailures is how many runs fail one after the other before the schedule pauses itself; 0 if it never does.
	MaxFailures int

	n *tree.Node
}

// Chain makes run after run of a flow begin in one chain, as Temporal's cron does: the first one at the first firing
// after the start, each further one at the first firing after the run before began and has ended. Firings that were
// missed are left out. The chain ends with a cancel, or before a run that would begin at or after its execution
// deadline; a step that starts such a flow waits for the end of the chain.
type Chain struct {
	Schedule string
	Zone     string // IANA name; "": UTC
}

// RunLimits bound a run.
type RunLimits struct {
	Execution *policy.Limit // spans the runs of a chain
	Run       *policy.Limit // this run
	Deadline  *policy.Limit // an instant (At): the chain's runs do not live past it
}

// Settings are shared by steps: the defaults of a document, or a service.
type Settings struct {
	Policy   policy.Policy
	Queue    string
	Priority *int32
	Key      tree.Value // a text: what limits for each key of a queue or service count by
	Exec     *Exec      // Env, Dir and Grace
	HTTP     *HTTP      // Headers and Expect
}

// Queue specifies how a queue limits its contents: the runs that are started into it, and the attempts of the steps
// whose task queue it is. Both are counted apart.
type Queue struct {
	Name   string
	Limits *policy.QueueLimits

	pos tree.Pos
}

// Service is a set of settings by name.
type Service struct {
	Name        string
	Description string
	Limits      *policy.QueueLimits // limits of all steps that use it, in all runs of the process; nil if there is none
	Settings

	pos tree.Pos
}

// Step is one step of a flow.
type Step struct {
	Name        string
	Description string
	Service     string
	Needs       []string
	// Trigger is the rule by which the step begins when all its needs have ended: allSucceeded, the default, which also
	// counts skipped steps and endings that continueOn allows; anySucceeded, anyFailed, allFailed or always.
	Trigger    string
	When       tree.Value // a text: an expression that decides whether the step runs
	ContinueOn []Ending   // how it may end without failing what needs it
	ForEach    tree.Value // a list, or an expression that gives one
	// Matrix, in place of ForEach: lists by the names of their axes, whose combinations are the items; and include and
	// exclude, lists of combinations.
	Matrix      tree.Value
	ItemName    tree.Value // a text: the name of an item; absent: its text
	Concurrency int        // items at the same time; 0: 64
	// Each names a loop, which is a step with ForEach and no action: the step runs once for each of its items, as soon
	// as its needs have ended for that item. With ForEach too, the step is a loop in that loop.
	Each     string
	More     tree.Value // only of a loop: an expression that gives the items which an item makes
	Policy   policy.Policy
	Queue    string
	Priority *int32
	Key      tree.Value // as in Settings
	Action   Action
	// Place is the place of the step in the document of another system from which the flow was made, as file:line:col.
	// It takes the place of the step's own place in warnings and failures. It is not part of the flow's text.
	Place string

	pos      tree.Pos
	needsPos []tree.Pos
	service  tree.Pos
	action   tree.Pos
	each     tree.Pos
	with     []*tree.Node // the arguments of its template
}

// defaultConcurrency is how many items of a forEach are open at the same time by default.
const defaultConcurrency = 64

// Hooks are steps that run when the outcome of the run is decided, before it ends: those of the outcome first, then
// OnExit. A run that timed out and has no OnTimeout runs OnFailure.
type Hooks struct {
	OnSuccess, OnFailure, OnTimeout, OnCancel, OnExit []*Step
}

// AllSteps yields the document's steps, with those of its hooks and notices.
func (d *Document) AllSteps() iter.Seq[*Step] {
	h := &d.Hooks
	return func(yield func(*Step) bool) {
		for _, steps := range [][]*Step{d.Steps, h.OnSuccess, h.OnFailure, h.OnTimeout, h.OnCancel, h.OnExit} {
			for _, s := range steps {
				if !yield(s) {
					return
				}
			}
		}
		for _, entry := range d.Notify {
			if entry.Step != nil && !yield(entry.Step) {
				return
			}
		}
	}
}

// ErrorAt returns an error about the action of a step of the document, at its place.
func (d *Document) ErrorAt(s *Step, hint, format string, args ...any) *tree.Error {
	e := &tree.Error{
		File: d.File, Line: s.action.Line, Col: s.action.Col, Step: s.Name,
		Msg: fmt.Sprintf(format, args...), Hint: hint,
	}
	d.src.Mark(e)
	return e
}

// Ending is a way to end without success, for ContinueOn.
type Ending string

// The endings.
const (
	EndError     Ending = "error" // unexpected: exit code, HTTP 5xx, connection, a lost worker
	EndFailed    Ending = "failed"
	EndTimeout   Ending = "timeout"
	EndCancelled Ending = "cancelled"
)

var endings = []string{string(EndError), string(EndFailed), string(EndTimeout), string(EndCancelled)}

// The keys of the format. A test compares them with the JSON Schema.
var (
	documentKeys = []string{
		"pawl", "name", "description", "words", "input", "timeout", "retry", "cron", "startDelay", "queue",
		"secrets", "env", "dotenv",
		"failFast", "concurrency", "defaults", "queues", "services", "templates", "steps", "hooks", "notify",
		"output",
	}
	runKeys  = []string{"timeout", "retry", "cron", "startDelay"} // the keys of RunSettings
	cronKeys = []string{
		"schedule", "except", "zone", "skipped", "repeated", "overlap", "catchUp", "jitter", "notAfter", "maxFailures",
	}
	settingsKeys = []string{"retry", "timeout", "queue", "priority", "key", "exec", "http"}
	serviceKeys  = append([]string{"description", "limits"}, settingsKeys...)
	stepKeys     = slices.Concat([]string{
		"name", "description", "service", "needs", "trigger", "when", "continueOn", "forEach", "matrix", "itemName",
		"each", "more",
		"concurrency", "timeout", "retry", "queue", "priority", "key",
	}, kindKeys, []string{"template", "with"})
	queueKeys    = []string{"concurrency", "perKey", "rate", "keyRate", "fair", "retries", "breaker"}
	runQueueKeys = []string{"name", "key", "priority"}
	breakerKeys  = []string{"failures", "of", "pause", "maxPause"}
	hookKeys     = []string{"onSuccess", "onFailure", "onTimeout", "onCancel", "onExit"}
	hookStepKeys = without(stepKeys, "needs", "trigger", "continueOn", "forEach", "matrix", "itemName", "each", "more",
		"concurrency")
	runLimitKeys = []string{"execution", "run", "deadline"}
	limitKeys    = []string{"after", "retry", "onExpire", "warn"}
	deadlineKeys = append([]string{"at"}, limitKeys...)
	retryKeys    = []string{
		"maxAttempts", "initialInterval", "backoffCoefficient", "maxInterval", "jitter", "on", "when", "nonRetryable",
		"maxLost",
	}
)

func without(keys []string, gone ...string) []string {
	var kept []string
	for _, key := range keys {
		if !contains(gone, key) {
			kept = append(kept, key)
		}
	}
	return kept
}

func contains(words []string, word string) bool {
	for _, w := range words {
		if w == word {
			return true
		}
	}
	return false
}

type (
	// Value is a part of a document that may be any data, and whose strings may contain expressions. The zero Value is
	// absent, which is not the same as null. [V] makes one.
	Value = tree.Value

	// Pos is a place in a document: line and column in characters, both from 1. The zero Pos is no place, for a
	// document that was built in code.
	Pos = tree.Pos

	// Error is one error of a document: its place, what is wrong, and what to do about it.
	Error = tree.Error

	// Errors are all errors of one document, in the order of their places.
	Errors = tree.Errors
)

// V makes a Value from Go data: nil, booleans, numbers, strings, durations, lists, maps with string keys, other Values.
// It panics with other types, as a mistake in the program.
func V(v any) Value { return tree.V(v) }

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of the document format, for editors, with the words of other systems
// where they are allowed. What it accepts Parse may still refuse: needs, names and expressions are beyond a schema.
func Schema(forms ...Form) []byte {
	if len(forms) == 0 {
		return bytes.Clone(schema)
	}
	type object = map[string]any
	var root object
	must(json.Unmarshal(schema, &root))
	defs := root["$defs"].(object)
	for _, form := range forms {
		var own struct{ Step, Run any }
		must(json.Unmarshal(form.Schema, &own))
		defs[form.Key], defs[form.Key+"Run"] = own.Step, own.Run
		root["properties"].(object)[form.Key] = object{"$ref": "#/$defs/" + form.Key + "Run"}
		for _, name := range []string{"settings", "service", "step", "hookStep"} {
			defs[name].(object)["properties"].(object)[form.Key] = object{"$ref": "#/$defs/" + form.Key}
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	must(enc.Encode(root))
	return out.Bytes()
}

// must panics on an error of a text in the program itself.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("flow: schema: %v", err))
	}
}
