package main

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	"github.com/pawl-dev/pawl/internal/judge"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// warning is a finding for people and programs.
type warning struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Col      int    `json:"col,omitempty"`
	Severity string `json:"severity"`
	Code     string `json:"code,omitempty"`
	Step     string `json:"step,omitempty"`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
	Excerpt  string `json:"-"`
}

func (w warning) isWarning() bool { return w.Severity == string(flow.Warning) }

func (w warning) String() string {
	place := w.File
	if w.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d", w.File, w.Line, w.Col)
	}
	if place != "" {
		place += ": "
	}
	return fmt.Sprintf("%s%s: %s", place, w.Severity, w.Message)
}

// checked is the JSON output for a file that was validated.
type checked struct {
	File     string    `json:"file"`
	Valid    bool      `json:"valid"`
	Workflow string    `json:"workflow,omitempty"`
	Steps    int       `json:"steps"`
	Findings []warning `json:"findings"`
}

func (a flowVerbs) flowCommand() *cobra.Command {
	return noun("flow", "Check flow files, and keep flows in the database", "", a.flowValidateCommand(),
		a.flowConvertCommand(), a.flowFmtCommand(),
		a.flowApplyCommand(), a.flowListCommand(), a.flowVersionsCommand(), a.flowShowCommand())
}

func (a flowVerbs) flowValidateCommand() *cobra.Command {
	var strict, cluster bool
	var s sources
	cmd := &cobra.Command{
		Use: "validate FILE…", Short: "Check flow files, and warn of limits that contradict each other",
		Args: cobra.MinimumNArgs(1),
		Long: "Every error is told at its place, with the line and a caret. Exit status 2 if a file is invalid; " +
			"with --strict also if anything is found. A workflow of another system is checked with its system's " +
			"name before it: steep:workflow.yaml. With --cluster it also says what limits of queues and services " +
			"mean there: each node counts for its own runs.",
		Example: "  pawl flow validate flows/*.yaml\n" +
			"  pawl flow validate steep:workflow.yaml --services services.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			var all []checked
			bad, warned := false, false
			for _, file := range args {
				c, err := a.validate(file, &s, cluster)
				if err != nil {
					return err
				}
				bad, warned = bad || !c.Valid, warned || len(c.Findings) > 0
				all = append(all, c)
			}
			if a.structured() {
				if err := a.print(all); err != nil {
					return err
				}
			}
			if bad || (strict && warned) {
				return &statusError{status: exitUsage}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "whatever is found counts as an error")
	cmd.Flags().BoolVar(&cluster, "cluster", false, "the flows are for the nodes of a cluster")
	s.flags(cmd.Flags())
	return cmd
}

// validate checks one file and prints what it found.
func (a flowVerbs) validate(file string, s *sources, cluster bool) (checked, error) {
	out := checked{File: file, Findings: []warning{}}
	if system, path := cutSystem(file); system != "" {
		return a.validateOther(out, system, path, s, cluster)
	}
	name, src, err := a.readFile(file)
	if err != nil {
		return out, asUsage(err)
	}
	doc, err := a.parseFlow(name, src)
	if err != nil {
		return a.invalid(out, err)
	}
	out.Valid, out.Workflow, out.Steps, out.Findings = true, doc.Name, len(doc.Steps),
		append(out.Findings, lint(doc, cluster)...)
	for _, n := range doc.Notes {
		out.Findings = append(out.Findings, warning{
			File: n.File, Line: n.Pos.Line, Col: n.Pos.Col, Severity: string(flow.Info),
			Code: "no-counterpart", Message: n.Msg,
		})
	}
	b := bundle{Flow: source{File: name, Text: string(src), Files: doc.Files()}}
	if _, err := a.files().WithChildren(b, doc); err != nil {
		if circle, ok := errors.AsType[*flowkind.CircleError](err); ok {
			return a.invalid(checked{File: file, Findings: []warning{}}, circle)
		}
		w := warning{File: name, Severity: string(flow.Warning), Message: err.Error()}
		if at, ok := errors.AsType[*tree.Error](err); ok {
			w.File, w.Line, w.Col, w.Step, w.Message, w.Hint = at.File, at.Line, at.Col, at.Step, at.Msg, at.Hint
		}
		out.Findings = append(out.Findings, w)
	}
	a.tellValid(out)
	return out, nil
}

func (a flowVerbs) tellValid(c checked) {
	for _, w := range c.Findings {
		a.say("%s", w)
	}
	a.say("%s: flow %q is valid: %s", c.File, c.Workflow, count(c.Steps, "step"))
}

// severityError is the severity of what makes a flow invalid.
const severityError = "error"

// invalid reports what is wrong with a file. Any other error, such as that of a file that cannot be read, is returned.
func (a flowVerbs) invalid(out checked, err error) (checked, error) {
	var problems tree.Errors
	if !errors.As(err, &problems) { // all of them, before the first one
		one, ok := errors.AsType[*tree.Error](err)
		if !ok {
			return out, err
		}
		problems = tree.Errors{one}
	}
	for _, p := range problems {
		out.Findings = append(out.Findings, warning{
			File: p.File, Line: p.Line, Col: p.Col, Severity: severityError, Step: p.Step, Message: p.Msg, Hint: p.Hint,
		})
		if !a.structured() {
			fmt.Fprintln(a.Out, p.Error())
		}
	}
	return out, nil
}

// validateOther checks a document of another system. Problems in the flows that it becomes are reported at their places
// in the document.
func (a flowVerbs) validateOther(
	out checked, system, path string, s *sources, cluster bool,
) (checked, error) {
	conversion, err := a.translate(system, path, s)
	if err != nil {
		return a.invalid(out, err)
	}
	out.Valid, out.Workflow, out.Steps = true, conversion.Flow.Name, len(conversion.Flow.Steps)
	for _, doc := range append([]*flow.Document{conversion.Flow}, conversion.Children...) {
		out.Findings = append(out.Findings, lint(doc, cluster)...)
	}
	for _, n := range conversion.Notes {
		if !n.Documents {
			out.Findings = append(out.Findings, warning{
				File: n.File, Line: n.Pos.Line, Col: n.Pos.Col, Severity: string(flow.Info),
				Code: "no-counterpart", Message: n.Msg,
			})
		}
	}
	a.tellValid(out)
	return out, nil
}

// lint looks for suspicious settings in a flow, which one server carries on or the nodes of a cluster.
func lint(doc *flow.Document, cluster bool) []warning {
	return warningsOf(workflows.Lint(doc, cluster))
}

func warningsOf(findings []flow.Finding) []warning {
	var out []warning
	for _, f := range findings {
		out = append(out, warning{
			File: f.File, Line: f.Pos.Line, Col: f.Pos.Col, Severity: string(f.Severity), Code: f.Code,
			Step: f.Step, Message: f.Msg,
		})
	}
	return out
}

func warningOf(step string, f judge.Finding) warning {
	return warning{Severity: string(flow.Warning), Code: f.Code, Step: step, Message: f.Message}
}

// warnings prints findings; a warning ends the command with status 1.
func (a *app) warnings(all []warning) error {
	if a.structured() {
		if all == nil {
			all = []warning{}
		}
		if err := a.print(all); err != nil {
			return err
		}
	}
	for _, w := range all {
		a.say("%s", w)
	}
	if slices.ContainsFunc(all, warning.isWarning) {
		return &statusError{status: exitFailed}
	}
	if len(all) == 0 {
		a.say("Nothing to find fault with.")
	}
	return nil
}

// compileFile reads a flow file.
func (a *app) compileFile(file string) (*flow.Document, *core.Definition, error) {
	name, src, err := a.readFile(file)
	if err != nil {
		return nil, nil, asUsage(err)
	}
	doc, err := a.parseFlow(name, src)
	if err != nil {
		return nil, nil, asUsage(err)
	}
	def, err := flow.Compile(doc)
	return doc, def, asUsage(err)
}

// specs yields the steps of a definition that do something: for a forEach the steps of its items, not the group.
func specs(def *core.Definition) iter.Seq[*core.StepSpec] {
	return func(yield func(*core.StepSpec) bool) {
		for i := int32(0); ; i++ {
			s := def.Spec(i)
			if s == nil || s.Kind != core.KindGroup && !yield(s) {
				return
			}
		}
	}
}

// runLimit returns the shortest time that a flow gives its runs; 0 if it sets no limit.
func runLimit(doc *flow.Document) time.Duration {
	shortest := time.Duration(0)
	for _, l := range []*policy.Limit{doc.Limits.Run, doc.Limits.Execution} {
		if l != nil && l.After > 0 && (shortest == 0 || l.After < shortest) {
			shortest = l.After
		}
	}
	return shortest
}
