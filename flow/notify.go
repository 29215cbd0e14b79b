package flow

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/flow/internal/expr"
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

var (
	notifyKinds = []string{"exec", "http", "mail", "task"}
	notifyKeys  = append([]string{
		"on", "name", "description", "service", "when", "timeout", "retry", "template", "with",
	}, notifyKinds...)
)

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
		s.Action = withNotice(s.Action)
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

// withNotice returns the action that sends a notice, with the notice as its text unless the action has its own.
func withNotice(a Action) Action {
	switch a := a.(type) {
	case *HTTP:
		method, _ := a.Method.Text()
		if !a.JSON.IsZero() || !a.Body.IsZero() || !a.File.IsZero() || method == "GET" || method == "HEAD" {
			return a
		}
		out := *a
		out.JSON = V(map[string]any{"text": noticeText}) // as Slack, Mattermost and others read it
		return &out
	case *Exec:
		if !a.Stdin.IsZero() {
			return a
		}
		out := *a
		out.Stdin = V(noticeText + "\n")
		return &out
	case *Mail:
		out := *a
		if out.Subject.IsZero() {
			out.Subject = V("${{ notice.subject }}")
		}
		if out.Text.IsZero() {
			out.Text = V("${{ notice.text }}\n")
		}
		return &out
	default:
		return a
	}
}

const noticeText = "${{ notice.subject }}\n${{ notice.text }}"
