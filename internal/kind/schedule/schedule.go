// Package schedule is the kind of workflow whose runs are schedules. The decisions of a schedule are in
// internal/schedule; this package makes commands of the machine from them, and news from the events of its run. Every
// engine has the kind: see internal/node.
package schedule

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/policy"
)

// Definition returns the definition of the runs that are schedules.
func Definition() journal.Definition {
	return journal.Definition{
		ID: mustID(schedule.DefinitionID()), Kind: schedule.Kind, Name: schedule.Workflow,
		Source: []byte(schedule.Source),
	}
}

// definition is the compiled form of it.
var definition = &core.Definition{
	Turns:      true,
	NewDecider: func(*core.Run) core.Decider { return decider{} },
	CheckInput: check,
}

// Compile returns the compiled form of the definition of schedules.
func Compile(d journal.Definition) (*core.Definition, error) {
	if string(d.Source) != schedule.Source {
		return nil, fmt.Errorf("a schedule of the form %s is not known to this version of Pawl", d.Source)
	}
	return definition, nil
}

// Name is the name of the kind.
const Name = schedule.Kind

// Kind returns the kind as an engine has it.
func Kind() engine.Kind { return engine.Kind{Compile: Compile, Needs: needs} }

// needs returns the definition of the runs that a schedule starts.
func needs(input []byte) (core.DefinitionID, bool) {
	s, err := schedule.Decode(input)
	if err != nil || s.Source != "" {
		return core.DefinitionID{}, false
	}
	id, err := parseID(string(s.Definition))
	return id, err == nil
}

// Read makes the definition ready to start schedules and to explain them.
func Read(d journal.Definition) (*service.Prepared, error) {
	def, err := Compile(d)
	if err != nil {
		return nil, err
	}
	return &service.Prepared{Definition: def, Begin: func(input []byte) (core.Start, error) {
		input, err := check(input)
		return core.Start{Input: input}, err
	}}, nil
}

// check checks the value that a schedule begins with.
func check(input []byte) ([]byte, error) {
	s, err := schedule.Decode(input)
	if err != nil {
		return nil, err
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("schedule %q: %w", s.Name, err)
	}
	return input, nil
}

// StateOf returns a run's schedule, as of its last turn.
func StateOf(r *core.Run) (*schedule.State, error) {
	text := r.Input
	if r.Published != nil {
		text = r.Published.Value
	}
	s, err := schedule.Decode(text)
	if err != nil {
		return nil, err
	}
	s.Begin(r.CreatedAt.Std())
	return s, nil
}

// decider decides for a schedule. It keeps nothing: a turn reads the run's value.
type decider struct{}

// entriesOfRun is how many entries a schedule's run has before another one follows it, so that each is soon read.
const entriesOfRun = 500

// Decide makes a turn.
func (decider) Decide(r *core.Run, _ []core.StepID, now core.Time) []core.Command {
	if r.Closing != nil {
		return nil // it has no hooks
	}
	s, err := StateOf(r)
	if err != nil {
		panic(err) // the engine sets the run aside, and reports why
	}
	before, err := s.Encode()
	if err != nil {
		panic(err)
	}
	turn, err := s.Turn(now.Std(), newsOf(r.Signals))
	if err != nil {
		panic(err)
	}
	var out []core.Command
	if s.Source != "" {
		out = append(out, core.Store{
			ID: mustID(string(s.Definition)), Kind: s.Kind, Name: s.Workflow, Source: []byte(s.Source),
		})
		s.Source = ""
	}
	value, err := s.Encode()
	if err != nil {
		panic(err)
	}
	step := core.Turn{Took: len(r.Signals), Wake: instant(turn.Wake)}
	if string(value) != string(before) {
		step.Value = value
	}
	out = append(out, step)
	for _, id := range turn.Stop {
		out = append(out, core.StopRun{WorkflowID: id, Reason: "the next firing is due"})
	}
	for i := range turn.Start {
		out = append(out, startOf(r, s, &turn.Start[i]))
	}
	switch {
	case turn.Over:
		out = append(out, core.Close{Phase: core.RunSucceeded, Output: value})
	case r.Seq >= entriesOfRun:
		out = append(out, core.Close{Phase: core.RunContinued, Output: value})
	}
	return out
}

// startOf returns the command that starts a run.
func startOf(r *core.Run, s *schedule.State, in *schedule.Start) core.Command {
	target := s.Over(in.Own)
	labels := map[string]string{schedule.Label: s.Name}
	for k, v := range target.Labels {
		labels[k] = v
	}
	made, err := core.MakeLabels(labels)
	if err != nil { // they are checked before they are stored
		made, _ = core.MakeLabels(map[string]string{schedule.Label: s.Name})
	}
	headers, _ := core.MakeHeaders(target.Headers) // these, too
	start := core.RunStart{
		Definition: mustID(string(s.Definition)), Workflow: s.Workflow, Key: schedule.Prefix + in.WorkflowID,
		Input: target.Input, From: r.WorkflowID, Notify: in.Notify, Zone: s.Zone, Timeout: in.Timeout,
		Labels: made, Headers: headers, Actor: in.Actor, Reason: in.Reason, AfterFailure: in.Failed, Top: r.Top(),
	}
	if !in.Firing.IsZero() {
		start.Firing = policy.At(in.Firing)
	}
	if !in.NotAfter.IsZero() {
		start.Deadline = core.RunLimit{At: policy.At(in.NotAfter), Origin: "schedule " + s.Name}
	}
	return core.StartRun{WorkflowID: in.WorkflowID, Start: start}
}

// newsOf reads the events of the run.
func newsOf(signals []core.Signal) []schedule.News {
	out := make([]schedule.News, 0, len(signals))
	for _, s := range signals {
		switch id, kind, _ := cut(s.Name); kind {
		case schedule.Event:
			var c schedule.Change
			if json.Unmarshal(s.Payload, &c) == nil {
				out = append(out, schedule.News{Change: &c})
			}
		case endedPrefix:
			out = append(out, schedule.News{Ended: endOf(id, s.Payload)})
		case refusedPrefix:
			out = append(out, schedule.News{Refused: endOf(id, s.Payload)})
		}
	}
	return out
}

var endedPrefix, refusedPrefix = core.SignalEnded(""), core.SignalRefused("")

// cut splits the name of an event: its kind, and the workflow id of the run that it concerns.
func cut(name string) (id, kind string, ok bool) {
	for _, prefix := range []string{endedPrefix, refusedPrefix} {
		if id, ok := strings.CutPrefix(name, prefix); ok {
			return id, prefix, true
		}
	}
	return "", name, false
}

func endOf(workflowID string, payload []byte) *schedule.Ended {
	var end engine.EndOfRun
	_ = json.Unmarshal(payload, &end) // the engine has written it
	return &schedule.Ended{WorkflowID: workflowID, Phase: end.Phase, Message: end.Message}
}

// Match implements core.Decider. No policy has a condition here.
func (decider) Match(*core.Run, *core.Step, string, *policy.Failure, []byte, core.Time) judge.Match {
	return judge.Match{}
}

// Task implements core.Decider. There are no tasks.
func (decider) Task(*core.Run, *core.Step, core.Time) ([]byte, *policy.Failure) { return nil, nil }

func instant(t time.Time) core.Time {
	if t.IsZero() {
		return 0
	}
	return policy.At(t)
}

// parseID reads the id of a definition.
func parseID(text string) (id core.DefinitionID, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%q is no id of a definition", text)
	}
	return core.DefinitionID(b), nil
}

// mustID reads the id of a definition; from any other text, the zero id, of which no run can be started.
func mustID(text string) core.DefinitionID {
	id, _ := parseID(text)
	return id
}
