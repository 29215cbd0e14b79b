package flow

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Notify is one recipient of notices about runs.
type Notify struct {
	On   []string // failure, which is the default, recovery, warning
	Step *Step    // how: its action is an exec, an http, a mail or a task
}

// The subjects of notices.
const (
	noticeFailure  = "failure"
	noticeRecovery = "recovery"
	noticeWarning  = "warning"
)

var notices = []string{noticeFailure, noticeRecovery, noticeWarning}

var notifyKeys = append([]string{
	"on", "name", "description", "service", "when", "timeout", "retry", "template", "with",
}, notifyKinds...)

// A notice that sets no retry is tried again for some minutes: the recipient is often away for a moment.
const (
	notifyOrigin  = "default of notify"
	notifyLimit   = 5 * time.Minute
	notifyAttempt = 30 * time.Second
)

// notifyName returns the name of a notifying step that has none.
func notifyName(i int) string { return fmt.Sprintf("notify-%d", i+1) }

// notify reads the recipients: one, or a list.
func (p *parsing) notify(n *tree.Node) []*Notify {
	if n == nil || n.Kind == tree.Null {
		return nil
	}
	items := []*tree.Node{n}
	if n.Kind == tree.List {
		items = n.Items
	}
	var out []*Notify
	for i, item := range items {
		const what = "an entry of notify"
		if item.Kind == tree.Null {
			p.Fail(item.Pos, "", "%s is a mapping, not nothing", what)
			continue
		}
		if !p.object(item, what, notifyKeys) {
			continue
		}
		whole, with := p.expand(item)
		if whole == nil || whole != item && !p.object(whole, what, notifyKeys) {
			continue
		}
		acts := slices.ContainsFunc(whole.Fields, func(f tree.NodeField) bool { return contains(notifyKinds, f.Name) })
		if !acts {
			p.missing(whole, notifyKeys, "add one of "+orList(notifyKinds), "%s does not say how", what)
			continue
		}
		entry := &Notify{On: p.noticeKinds(whole.Get("on")), Step: p.step(whole)}
		entry.Step.with = with
		if entry.Step.Name == "" {
			entry.Step.Name = notifyName(i)
		}
		out = append(out, entry)
	}
	return out
}

// noticeKinds reads the subjects of which a recipient gets notices.
func (p *parsing) noticeKinds(n *tree.Node) []string {
	if n == nil || n.Kind == tree.Null {
		return []string{noticeFailure}
	}
	texts, places := p.texts(n, "on")
	var out []string
	for i, text := range texts {
		if !contains(notices, text) {
			hint := nearest.Hint(text, notices)
			if hint == "" {
				hint = "use " + orList(notices)
			}
			p.Fail(places[i], hint, "notify knows no %q", text)
		} else if contains(out, text) {
			p.Fail(places[i], "", "%s is named twice", text)
		} else {
			out = append(out, text)
		}
	}
	if n.Kind == tree.List && len(n.Items) == 0 {
		p.Fail(n.Pos, "use "+orList(notices), "on names nothing to tell of")
	}
	return out
}

// encodeNotify leaves out the default names of the entries.
func encodeNotify(entries []*Notify) tree.Value {
	if len(entries) == 0 {
		return tree.Value{}
	}
	list := &tree.Node{Kind: tree.List}
	for i, entry := range entries {
		out := object{}
		if !slices.Equal(entry.On, []string{noticeFailure}) {
			out.put("on", V(entry.On))
		}
		step := *entry.Step
		if step.Name == notifyName(i) {
			step.Name = ""
		}
		for _, f := range tree.NodeOf(encodeStep(&step)).Fields {
			out.must(f.Name, tree.ValueOf(f.Value))
		}
		list.Push(tree.NodeOf(out.value()))
	}
	return tree.ValueOf(list)
}

// notify compiles the steps that send notices. Notices of a run's end are sent in the last stage, beside onExit, so
// that other hooks need not wait for a recipient that is away. An entry that also sends notices of warnings is two
// steps, because both may run.
func (b *builder) notify() {
	for i, entry := range b.doc.Notify {
		if entry.Step == nil || entry.Step.Action == nil {
			b.Fail(b.doc.pos, "", "entry %d of notify does not say how", i+1)
			continue
		}
		s := *entry.Step
		if s.Name == "" {
			s.Name = notifyName(i)
		}
		if a := s.Action.withNotice(); a != nil {
			s.Action = a
		}
		ends := slices.DeleteFunc(slices.Clone(entry.On), func(on string) bool { return on == noticeWarning })
		if len(ends) > 0 {
			b.tell(onNotice, entry, s, ends)
		}
		if len(ends) < len(entry.On) {
			if len(ends) > 0 {
				s.Name += "-warning"
			}
			b.tell(onWarning, entry, s, []string{noticeWarning})
		}
		b.def.recalls = b.def.recalls || contains(ends, noticeRecovery)
	}
}

func (b *builder) tell(stage hookStage, entry *Notify, s Step, notices []string) {
	before := len(b.def.plans)
	b.hook(stage, &s, varsHook|expr.VarNotice)
	if len(b.def.plans) == before {
		return // its name was refused
	}
	p := &b.def.plans[before]
	p.step, p.notices = entry.Step, notices
	if p.spec.Policy.Retry == nil {
		retry := policy.DefaultRetry()
		retry.MaxAttempts, retry.InitialInterval, retry.MaxInterval = 6, time.Second, time.Minute
		retry.Origin = notifyOrigin
		p.spec.Policy.Retry = retry
	}
	if p.spec.Policy.StartToClose == nil && p.spec.Policy.ScheduleToClose.Origin == notifyOrigin {
		p.spec.Policy.StartToClose = &policy.Limit{After: notifyAttempt, Retry: true, Origin: notifyOrigin}
	}
}

const noticeText = "${{ notice.subject }}\n${{ notice.text }}"

// noticeSteps lists the steps that send notices of an outcome. There are no notices of a cancel: whoever cancelled
// knows.
func (d *definition) noticeSteps(r *core.Run) []int32 {
	about := noticeOf(r)
	var out []int32
	for _, def := range d.stages[onNotice] {
		if contains(d.plans[def].notices, about) {
			out = append(out, def)
		}
	}
	return out
}

// noticeOf returns the notice of a run that closes.
func noticeOf(r *core.Run) string {
	switch {
	case r.Closing.Phase.Failed():
		return noticeFailure
	case r.Closing.Phase == core.RunSucceeded && r.Chain.AfterFailure:
		return noticeRecovery
	default:
		return ""
	}
}

// warn sends a notice of the run's first warning. The decision not to send one is recorded, too, so that it is made
// once.
func (t *turn) warn() {
	if t.run.Warned == nil || t.warned {
		return
	}
	t.warned = true
	for _, def := range t.def.stages[onWarning] {
		p := &t.def.plans[def]
		if cmd, begins := t.hook(p, t.scope()); begins {
			t.schedule(cmd)
			continue
		}
		why := "when is false: " + p.when.Text()
		t.cmds = append(t.cmds, core.Skip{Spec: p.spec, Item: -1, Group: core.NoStep, Reason: why})
		t.next++
	}
}

// notice returns the notice of the run for its recipients. It is made of recorded values, so that each attempt to send
// it has the same text.
func (s *scope) notice() *expr.Notice {
	w, c := s.run.Warned, s.run.Closing
	def, known := s.def.ordinal(s.step)
	switch {
	case w != nil && (c == nil || known && contains(s.def.plans[def].notices, noticeWarning)):
		return s.warning(w)
	case c != nil:
		return s.ending(c)
	default:
		return &expr.Notice{}
	}
}

// warning describes a limit that is going to expire.
func (s *scope) warning(w *core.Warning) *expr.Notice {
	left := duration.Format(max(w.Deadline.Sub(s.now), 0).Round(time.Millisecond))
	who, of := s.run.Workflow, ""
	if w.Step != core.NoStep {
		step := s.run.Steps[w.Step].Key()
		who, of = fmt.Sprintf("%s: step %q", who, step), " of step "+step
	}
	ends := fmt.Sprintf("The %s%s ends at %s", w.Limit, of, w.Deadline)
	if w.Origin != "" {
		ends += " (set at " + w.Origin + ")"
	}
	runs := s.whichRun() + " has run since " + s.run.StartedAt.String() + "."
	return &expr.Notice{
		On: noticeWarning, Subject: fmt.Sprintf("%s has %s left of its %s", who, left, w.Limit),
		Text: strings.Join([]string{runs, ends + ".", s.howToLook()}, "\n"),
	}
}

// ending describes how the run ends.
func (s *scope) ending(c *core.Closing) *expr.Notice {
	outcome := strings.ReplaceAll(c.Phase.String(), "_", " ")
	v := &expr.Notice{On: noticeOf(s.run), Subject: s.run.Workflow + " " + outcome}
	lines := []string{s.whichRun() + fmt.Sprintf(" %s after %s.", outcome,
		core.Span(s.now.Sub(s.run.StartedAt)))}
	if v.On == noticeRecovery {
		v.Subject += " again"
		lines = append(lines, "The run before it had failed.")
	}
	if f := c.Failure; f != nil {
		if first, _, _ := strings.Cut(f.Message, "\n"); first != "" {
			v.Subject += ": " + short(first)
		}
		lines = append(lines, s.badSteps()...)
		if text := core.Sentence(f); text != "" {
			lines = append(lines, "Why: "+text)
		}
	}
	v.Text = strings.Join(append(lines, s.howToLook()), "\n")
	return v
}

// whichRun names the run at the beginning of a sentence, by the name that somebody chose for it. A chain without a
// chosen name has the id of its first run as its name, which would be another run than the one to look at.
func (s *scope) whichRun() string {
	run := s.run.WorkflowID
	if _, err := core.ParseRunID(run); err == nil || run == "" {
		run = s.run.ID.String()
	}
	return fmt.Sprintf("Run %s of the flow %s", run, s.run.Workflow)
}

func (s *scope) howToLook() string { return "To look at it: pawl run show " + s.run.ID.String() }

// maxNamed is how many steps a notice names.
const maxNamed = 5

// whyStopped explains why no further attempt of a step followed, if its failure does not.
var whyStopped = map[policy.Reason]string{
	policy.ReasonAttemptsExhausted: "all its attempts are used up",
	policy.ReasonRetriesOff:        "it has no retries",
	policy.ReasonNonRetryable:      "this failure is never retried",
	policy.ReasonNotMatched:        "its retry policy does not retry this failure",
	policy.ReasonExpressionError:   "the condition of its retry policy is broken",
	policy.ReasonNoTimeLeft:        "no time was left for another attempt",
	policy.ReasonWorkerLost:        "its worker was lost too often",
	policy.ReasonOperator:          "an operator decided so",
}

// badSteps names the steps that ended badly, in the order in which they ended.
func (s *scope) badSteps() []string {
	var bad []*core.Step
	for i := range s.run.Steps {
		step := &s.run.Steps[i]
		failed := step.Phase == core.StepFailed || step.Phase == core.StepTimedOut
		if failed && !step.Dropped && !step.Spec.Hook && step.Group == core.NoStep && !s.def.tolerates(step) {
			bad = append(bad, step)
		}
	}
	slices.SortStableFunc(bad, func(a, b *core.Step) int { return int(max(-1, min(1, a.EndedAt.Sub(b.EndedAt)))) })
	var lines []string
	for _, step := range bad[:min(len(bad), maxNamed)] {
		text := fmt.Sprintf("Step %s %s", step.Key(), strings.ReplaceAll(step.Phase.String(), "_", " "))
		if step.Attempt > 0 {
			text += fmt.Sprintf(" in attempt %d", step.Attempt)
		}
		reason := step.Reason
		if reason == policy.ReasonNotMatched && step.Once() {
			reason = policy.ReasonRetriesOff
		}
		if why := whyStopped[reason]; why != "" {
			text += ": " + why
		}
		lines = append(lines, text+".")
	}
	if more := len(bad) - maxNamed; more > 0 {
		lines = append(lines, fmt.Sprintf("So did %d more.", more))
	}
	return lines
}
