package flow

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/core"
	"github.com/pawl-dev/pawl/policy"
)

// Severity is how much a finding matters.
type Severity string

// The severities.
const (
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is something a document may say, and probably does not mean.
type Finding struct {
	File     string
	Pos      Pos
	Severity Severity
	Code     string // as package policy names what it finds; else one of the codes below
	Step     string // or the service; may be empty
	Msg      string
}

// The codes of what is found in flows only.
const (
	LintUnusedService = "unused-service"
	LintEndlessWait   = "endless-wait"
	LintSleepsTooLong = "sleeps-too-long"
)

func (f Finding) String() string {
	text := f.File
	if f.Pos.Line > 0 {
		text = fmt.Sprintf("%s:%d:%d", f.File, f.Pos.Line, f.Pos.Col)
	}
	return fmt.Sprintf("%s: %s: %s", text, f.Severity, f.Msg)
}

// Lint looks for limits that contradict each other, services nobody uses and waits without an end. The document has
// been compiled without error.
func Lint(doc *Document) []Finding {
	def, err := doc.definition()
	if err != nil {
		return nil
	}
	l := linter{doc: doc}
	l.services()
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
	findings []Finding
	seen     map[string]bool // what was found in a policy that several steps share
}

func (l *linter) add(severity Severity, at Pos, code, step, format string, args ...any) {
	f := Finding{File: l.doc.File, Pos: at, Severity: severity, Code: code, Step: step, Msg: fmt.Sprintf(format, args...)}
	if f.File == "" {
		f.File = l.doc.Name
	}
	l.findings = append(l.findings, f)
}

// hook looks at a hook's policy. The run's limit does not bound it, and of the limit that every hook has nobody needs to
// be told.
func (l *linter) hook(spec *core.StepSpec) {
	p := spec.Policy
	if p.ScheduleToClose != nil && p.ScheduleToClose.Origin == hookOrigin {
		p.ScheduleToClose = nil
	}
	l.policy(spec.Name, Pos{}, &p, 0)
}

// policy reports what package policy finds, at the place where that part of the policy was configured.
func (l *linter) policy(step string, at Pos, p *policy.Policy, runLimit time.Duration) {
	for _, f := range policy.Lint(p, runLimit) {
		origin := originOf(p, f.Path)
		key := origin + f.Code + f.Message
		if origin != "" && l.seen[key] {
			continue
		}
		if l.seen == nil {
			l.seen = map[string]bool{}
		}
		l.seen[key] = true
		place := at
		if pos, ok := l.doc.src.parsePlace(origin); ok {
			place = pos
		}
		l.add(Warning, place, f.Code, step, "step %q: %s", step, f.Message)
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

// runLimit is the shortest amount of time the run has; 0: none.
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
	h := &l.doc.Hooks
	for _, steps := range [][]*Step{l.doc.Steps, h.OnSuccess, h.OnFailure, h.OnTimeout, h.OnCancel, h.OnExit} {
		for _, s := range steps {
			used[s.Service] = true
		}
	}
	for _, s := range l.doc.Services {
		if !used[s.Name] {
			l.add(Warning, s.pos, LintUnusedService, s.Name, "no step uses the service %q", s.Name)
		}
	}
}

func (l *linter) step(s *Step, p *plan) {
	l.policy(s.Name, s.pos, &p.spec.Policy, l.runLimit())
	switch s.Action.(type) {
	case *Wait:
		if p.spec.Policy.Wait == nil && p.spec.Policy.ScheduleToClose == nil && !l.bounded() {
			l.add(Info, s.pos, LintEndlessWait, s.Name, "step %q waits without any limit; add timeout: 7d, or a limit for the run", s.Name)
		}
	case *Sleep:
		if p.sleep != nil && p.sleep.amount != nil && p.sleep.amount.isConstant() {
			l.sleep(s, p)
		}
	default:
	}
}

// bounded reports whether the run itself comes to an end.
func (l *linter) bounded() bool {
	limits := l.doc.Limits
	return limits.Run != nil || limits.Execution != nil || limits.Deadline != nil
}

func (l *linter) sleep(s *Step, p *plan) {
	run := l.runLimit()
	if run == 0 || p.sleep.until {
		return
	}
	if d, err := policy.DecodeDuration(p.sleep.amount.value); err == nil && d >= run {
		l.add(Warning, s.pos, LintSleepsTooLong, s.Name, "step %q sleeps at least as long as the run may take", s.Name)
	}
}
