package flow

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Severity is how much a finding matters.
type Severity string

// The severities.
const (
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is a setting that is allowed in a document but probably a mistake.
type Finding struct {
	File     string
	Pos      tree.Pos
	Severity Severity
	Code     string // as package policy names what it finds; else a stable word such as "unused-service"
	Step     string // or the service; may be empty
	Msg      string
}

// The codes of findings that only flows have.
const (
	lintUnusedService  = "unused-service"
	lintUnusedTemplate = "unused-template" // or a parameter of one
	lintEndlessWait    = "endless-wait"
	lintSleepsTooLong  = "sleeps-too-long"
	lintDeadlinePassed = "deadline-passed"
	lintLimitNoEffect  = "limit-no-effect" // the step never starts that limit's clock
	lintNoSignOfLife   = "no-sign-of-life" // the step never stops that limit's clock
	lintTriggerUnused  = "trigger-never-fires"
	lintInputAbsent    = "input-may-be-missing"
	lintUnusedSecret   = "unused-secret"
	lintUnusedVariable = "unused-variable"
	lintWrongEnding    = "ending-not-allowed"
	lintWaitEatsLimit  = "wait-counts" // a limit counts the wait for a mutex
	lintOtherBraces    = "no-expression"
)

func (f Finding) String() string {
	text := f.File
	if f.Pos.Line > 0 {
		text = fmt.Sprintf("%s:%d:%d", f.File, f.Pos.Line, f.Pos.Col)
	}
	return fmt.Sprintf("%s: %s: %s", text, f.Severity, f.Msg)
}

// Lint looks for limits that contradict each other or the step's action, deadlines that have passed, unused services
// and waits without an end. The document has been compiled without error.
func Lint(doc *Document, now core.Time) []Finding {
	def, err := doc.definition()
	if err != nil {
		return nil
	}
	l := linter{doc: doc, now: now, places: map[string]string{"": doc.Place}}
	for s := range doc.AllSteps() {
		l.places[s.Name] = s.Place
	}
	l.run()
	l.services()
	l.templates()
	l.declared(def)
	for i, s := range doc.Steps {
		p := &def.plans[i]
		if p.item >= 0 {
			p = &def.plans[p.item]
		}
		l.step(s, p)
	}
	for _, stage := range def.stages {
		for _, ordinal := range stage {
			l.hook(def.plans[ordinal].spec)
		}
	}
	return l.findings
}

type linter struct {
	doc      *Document
	now      core.Time
	findings []Finding
	places   map[string]string // places of steps, in the document that the flow was made of
	seen     map[string]bool   // findings about a policy that several steps share
}

func (l *linter) add(severity Severity, at tree.Pos, code, step, format string, args ...any) {
	f := Finding{
		File: l.doc.File, Pos: at, Severity: severity, Code: code, Step: step,
		Msg: fmt.Sprintf(format, args...),
	}
	if l.doc.src != nil {
		f.File, f.Pos = l.doc.src.Locate(at)
	}
	if f.File == "" {
		f.File = l.doc.Name
	}
	if file, at, ok := tree.CutPlace(l.places[step]); ok {
		f.File, f.Pos = file, at
	}
	l.findings = append(l.findings, f)
}

// hook looks at a hook's policy. The run's limit does not bound it, and the default limit of every hook is not worth a
// finding.
func (l *linter) hook(spec *core.StepSpec) {
	p := spec.Policy
	if p.ScheduleToClose != nil && contains([]string{hookOrigin, notifyOrigin}, p.ScheduleToClose.Origin) {
		p.ScheduleToClose = nil
	}
	if p.Retry != nil && p.Retry.Origin == notifyOrigin {
		p.Retry = nil
	}
	l.policy(spec.Name, tree.Pos{}, &p, 0)
}

// policy reports what package policy finds, at the place where that part of the policy was configured.
func (l *linter) policy(step string, at tree.Pos, p *policy.Policy, runLimit time.Duration) {
	for _, f := range judge.Lint(p, runLimit) {
		l.once(Warning, originOf(p, f.Path), at, f.Code, step, "%s", f.Message)
	}
	if d := p.Deadline; d != nil && d.At != 0 && d.At <= l.now {
		l.once(Warning, d.Origin, at, lintDeadlinePassed, step, "the deadline, %s, has passed",
			d.At.Std().Format(time.RFC3339))
	}
}

// once reports a finding at the place where a setting was made, once, however many steps share it.
func (l *linter) once(severity Severity, origin string, at tree.Pos, code, step, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	key := origin + code + message
	if origin != "" && l.seen[key] {
		return
	}
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	l.seen[key] = true
	if step != "" {
		message = fmt.Sprintf("step %q: %s", step, message)
	}
	l.add(severity, at, code, step, "%s", message)
	if file, pos, known := tree.CutPlace(origin); known { // the setting's place is more useful than the step's
		last := &l.findings[len(l.findings)-1]
		last.File, last.Pos = file, pos
	}
}

// run looks at the limits of the run itself.
func (l *linter) run() {
	limits := l.doc.Limits
	if r, e := limits.Run, limits.Execution; r != nil && e != nil && r.After > 0 && e.After > 0 && e.After < r.After {
		l.once(Warning, r.Origin, l.doc.pos, "limit-never-fires", "",
			"run of %s can never fire: execution of %s is always over first",
			duration.Format(r.After), duration.Format(e.After))
	}
	if d := limits.Deadline; d != nil && d.At != 0 && d.At <= l.now {
		l.once(Warning, d.Origin, l.doc.pos, lintDeadlinePassed, "",
			"the flow's deadline, %s, has passed: no run of it gets anywhere", d.At.Std().Format(time.RFC3339))
	}
}

func originOf(p *policy.Policy, path []string) string {
	if len(path) > 0 && path[0] == "retry" && p.Retry != nil {
		return p.Retry.Origin
	}
	for _, kind := range policy.StepLimits {
		if limit := p.Get(kind); limit != nil && contains(path, kind.String()) {
			return limit.Origin
		}
	}
	return ""
}

// runLimit returns the shortest limit of the run; 0 if it has none.
func (l *linter) runLimit() time.Duration {
	shortest := time.Duration(0)
	for _, limit := range []*policy.Limit{l.doc.Limits.Run, l.doc.Limits.Execution} {
		if limit != nil && limit.After > 0 && (shortest == 0 || limit.After < shortest) {
			shortest = limit.After
		}
	}
	return shortest
}

func (l *linter) services() {
	used := map[string]bool{}
	for s := range l.doc.AllSteps() {
		used[s.Service] = true
	}
	for _, s := range l.doc.Services {
		if !used[s.Name] {
			l.add(Warning, s.pos, lintUnusedService, s.Name, "no step uses the service %q", s.Name)
		}
	}
}

// declared finds secrets and variables of the environment that nothing refers to.
func (l *linter) declared(def *definition) {
	for _, name := range l.doc.Secrets {
		if key := referTo(expr.RefersSecret, name); !def.refers[key] {
			l.add(Warning, l.doc.declared[key], lintUnusedSecret, "", "no step refers to the secret %q, and no run "+
				"begins without it; give it to a step, as in env: {TOKEN: \"${{ secrets.%s }}\"}, or leave it out",
				name, name)
		}
	}
	processes := false
	for s := range l.doc.AllSteps() {
		_, exec := s.Action.(*Exec)
		processes = processes || exec
	}
	for _, name := range slices.Sorted(maps.Keys(l.doc.Env)) {
		key := referTo(expr.RefersEnv, name)
		if reaches := processes && l.doc.Env[name] != nil; !reaches && !def.refers[key] {
			l.add(Warning, l.doc.declared[key], lintUnusedVariable, "", "no step refers to the variable %s of the "+
				"environment; leave it out", name)
		}
	}
}

func (l *linter) templates() {
	for _, name := range slices.Sorted(maps.Keys(l.doc.templates)) {
		t := l.doc.templates[name]
		if !t.used {
			l.add(Warning, t.pos, lintUnusedTemplate, name, "no step uses the template %q", name)
		}
		for _, parameter := range t.order {
			if !t.uses[parameter] {
				l.add(Warning, t.pos, lintUnusedTemplate, name, "the template %q does not use its parameter %q", name,
					parameter)
			}
		}
	}
}

func (l *linter) step(s *Step, p *plan) {
	l.policy(s.Name, s.pos, &p.spec.Policy, l.runLimit())
	l.limits(s)
	l.eaten(s, &p.spec.Policy)
	l.absent(s, p)
	if l.doc.FailFast && (s.Trigger == anyFailed || s.Trigger == allFailed) {
		l.add(Warning, s.pos, lintTriggerUnused, s.Name,
			"step %q never begins: with failFast the run ends when something fails; use hooks", s.Name)
	}
	if s.Action != nil {
		s.Action.lint(l, s, p)
	}
}

// absent looks for parts of the input in a condition or a command that a run need not have. Without them the step
// fails.
func (l *linter) absent(s *Step, p *plan) {
	var reported []string
	look := func(keys []string) {
		for _, key := range keys {
			if slices.Contains(reported, key) || p.when != nil && p.when.Asks(key) {
				continue
			}
			reported = append(reported, key)
			l.add(Warning, s.pos, lintInputAbsent, s.Name, "step %q fails in a run without %s: give it a default, "+
				"list it under required, or write %s ?? 'a default'", s.Name, key, key)
		}
	}
	if p.when != nil {
		look(p.when.Unsure())
	}
	if _, process := s.Action.(*Exec); process {
		p.payload.Programs(func(e *expr.Program) { look(e.Absent()) })
	}
}

// limits looks at the limits that the step itself sets: shared ones need not make sense for each of the steps.
func (l *linter) limits(s *Step) {
	for _, kind := range policy.StepLimits {
		limit := s.Policy.Get(kind)
		if limit == nil || limit.At != 0 || limit.Expr != "" && kind == policy.LimitDeadline {
			continue // an instant limits every kind of step, and an expression may be one
		}
		if severity, code, why := l.pointless(s, kind); why != "" {
			l.once(severity, limit.Origin, s.pos, code, s.Name, "%s", why)
		}
	}
}

// pointless explains why a limit is useless for a step's action, or returns "" if it is useful.
func (l *linter) pointless(s *Step, kind policy.LimitKind) (severity Severity, code, why string) {
	if s.Action == nil {
		return noEvent(kind)
	}
	return s.Action.pointless(kind, l.inLines(s))
}

// inLines reports whether lines of a process are read for heartbeats and results.
func (l *linter) inLines(s *Step) bool {
	if e, ok := s.Action.(*Exec); ok && e.Results != "" {
		return e.Results == resultsInLines
	}
	for _, service := range l.doc.Services {
		if service.Name == s.Service && service.Exec != nil && service.Exec.Results != "" {
			return service.Exec.Results == resultsInLines
		}
	}
	return l.doc.Defaults.Exec != nil && l.doc.Defaults.Exec.Results == resultsInLines
}

// bounded reports whether the run itself has an end.
func (l *linter) bounded() bool {
	limits := l.doc.Limits
	return limits.Run != nil || limits.Execution != nil || limits.Deadline != nil
}

// lintEachNode is the finding for limits that each node of a cluster counts separately.
const lintEachNode = "limit-of-each-node"

// LintNodes returns which limits of a document mean something else on the nodes of a cluster than on one server. Each
// node counts for its own runs, so a limit of 1 excludes nothing there: that is a warning. The document has been
// compiled without error.
func LintNodes(doc *Document) []Finding {
	l := linter{doc: doc}
	for _, q := range doc.Queues {
		l.eachNode("queue", q.Name, q.pos, q.Limits)
	}
	for _, s := range doc.Services {
		l.eachNode("service", s.Name, s.pos, s.Limits)
	}
	return l.findings
}

func (l *linter) eachNode(what, name string, at tree.Pos, limits *policy.QueueLimits) {
	switch {
	case limits.Zero():
	case limits.Concurrency == 1:
		l.add(Warning, at, lintEachNode, name,
			"%s %q: concurrency: 1 is one on each node of a cluster, and not one in all", what, name)
	case limits.PerKey == 1:
		l.add(Warning, at, lintEachNode, name,
			"%s %q: perKey: 1 is one on each node of a cluster, and not one in all", what, name)
	default:
		l.add(Info, at, lintEachNode, name,
			"%s %q: each node of a cluster counts these limits for its own runs", what, name)
	}
}
