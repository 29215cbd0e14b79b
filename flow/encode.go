package flow

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Encode writes a document as YAML that Parse reads to the same document. Comments are not part of a document and are
// lost. A document that holds Variables cannot be written: they are code.
func Encode(doc *Document) ([]byte, error) {
	if len(doc.Variables) > 0 {
		return nil, fmt.Errorf("flow %q has expressions in another language, which the native format does not know",
			doc.Name)
	}
	if doc.Chain != nil {
		return nil, fmt.Errorf("flow %q has a chain of runs by a cron expression (Temporal's cronSchedule), which the "+
			"native format does not know; with cron it has a schedule, whose runs are independent", doc.Name)
	}
	out := object{}
	out.put("pawl", V(formatVersion))
	out.text("name", doc.Name)
	out.text("description", doc.Description)
	out.text("words", doc.Words)
	out.put("input", doc.Input)
	out.put("timeout", encodeRunLimits(doc.Limits))
	out.put("retry", encodeRetry(doc.Retry))
	out.put("cron", encodeCron(doc.Cron))
	if doc.StartDelay > 0 {
		out.put("startDelay", V(doc.StartDelay))
	}
	out.put("queue", encodeRunQueue(doc.Queue))
	if len(doc.Secrets) > 0 {
		out.put("secrets", V(doc.Secrets))
	}
	out.put("env", encodeEnv(doc.Env))
	if len(doc.Dotenv) > 0 {
		out.put("dotenv", V(doc.Dotenv))
	}
	if doc.FailFast {
		out.put("failFast", V(true))
	}
	if doc.Newest {
		out.text("concurrency", "newest")
	}
	out.put("defaults", encodeSettings(object{}, doc.Defaults))
	queues := object{}
	for _, q := range doc.Queues {
		queues.must(q.Name, encodeQueueLimits(q.Limits))
	}
	out.put("queues", queues.value())
	services := object{}
	for _, s := range doc.Services {
		services.must(s.Name, encodeService(s))
	}
	out.put("services", services.value())
	steps := &tree.Node{Kind: tree.List}
	for _, s := range doc.Steps {
		steps.Push(tree.NodeOf(encodeStep(s)))
	}
	out.must("steps", tree.ValueOf(steps))
	hooks := object{}
	for i, list := range [][]*Step{
		doc.Hooks.OnSuccess, doc.Hooks.OnFailure, doc.Hooks.OnTimeout, doc.Hooks.OnCancel,
		doc.Hooks.OnExit,
	} {
		hooks.put(hookKeys[i], encodeHook(hookKeys[i], list))
	}
	out.put("hooks", hooks.value())
	out.put("notify", encodeNotify(doc.Notify))
	out.put("output", doc.Output)
	return tree.YAML(tree.NodeOf(out.value())), nil
}

// object collects the fields of a mapping in their order.
type object struct{ n tree.Node }

func (o *object) put(name string, v tree.Value) {
	if v.IsZero() || tree.NodeOf(v).Kind == tree.Mapping && len(tree.NodeOf(v).Fields) == 0 {
		return
	}
	o.must(name, v)
}

// must writes a field even if it is empty.
func (o *object) must(name string, v tree.Value) {
	if v.IsZero() {
		v = V(nil)
	}
	o.n.Kind = tree.Mapping
	o.n.Add(name, tree.Pos{}, tree.NodeOf(v))
}

func (o *object) text(name, text string) {
	if text != "" {
		o.put(name, V(text))
	}
}

func (o *object) names(name string, names []string) {
	if len(names) > 0 {
		o.put(name, V(names))
	}
}

func (o *object) duration(name string, d *time.Duration) {
	if d != nil {
		o.put(name, V(*d))
	}
}

func (o *object) value() tree.Value {
	if o.n.Kind != tree.Mapping {
		return tree.Value{}
	}
	return tree.ValueOf(&o.n)
}

func encodeService(s *Service) tree.Value {
	out := object{}
	out.text("description", s.Description)
	out.put("limits", encodeQueueLimits(s.Limits))
	return encodeSettings(out, s.Settings)
}

func encodeSettings(out object, s Settings) tree.Value {
	out.put("retry", encodeRetry(s.Policy.Retry))
	out.put("timeout", encodeLimits(&s.Policy.Limits, policy.LimitScheduleToClose))
	out.text("queue", s.Queue)
	out.put("priority", encodePriority(s.Priority))
	out.put("key", s.Key)
	if s.Exec != nil {
		out.put("exec", s.Exec.encode())
	}
	if s.HTTP != nil {
		out.put("http", s.HTTP.encode())
	}
	return out.value()
}

func encodePriority(p *int32) tree.Value {
	if p == nil {
		return tree.Value{}
	}
	return V(*p)
}

func encodeStep(s *Step) tree.Value {
	out := object{}
	out.text("name", s.Name)
	out.text("description", s.Description)
	out.text("service", s.Service)
	if len(s.Needs) > 0 {
		out.put("needs", V(s.Needs))
	}
	out.text("trigger", s.Trigger)
	out.put("when", s.When)
	if len(s.ContinueOn) > 0 {
		endings := make([]string, len(s.ContinueOn))
		for i, e := range s.ContinueOn {
			endings[i] = string(e)
		}
		out.put("continueOn", V(endings))
	}
	out.put("forEach", s.ForEach)
	out.put("matrix", s.Matrix)
	out.put("itemName", s.ItemName)
	out.text("each", s.Each)
	out.put("more", s.More)
	if s.Concurrency > 0 {
		out.put("concurrency", V(s.Concurrency))
	}
	alone := policy.LimitScheduleToClose
	if _, wait := s.Action.(*Wait); wait {
		alone = policy.LimitWait
	}
	out.put("timeout", encodeLimits(&s.Policy.Limits, alone))
	out.put("retry", encodeRetry(s.Policy.Retry))
	out.text("queue", s.Queue)
	out.put("priority", encodePriority(s.Priority))
	out.put("key", s.Key)
	if s.Action != nil {
		out.must(s.Action.kind(), s.Action.encode())
	}
	return out.value()
}

// encodeHook leaves out the default name of a hook.
func encodeHook(name string, steps []*Step) tree.Value {
	if len(steps) == 0 {
		return tree.Value{}
	}
	list := &tree.Node{Kind: tree.List}
	for _, s := range steps {
		step := *s
		if contains(hookKeys, step.Name) {
			step.Name = ""
		}
		list.Push(tree.NodeOf(encodeStep(&step)))
	}
	if len(steps) == 1 {
		return tree.ValueOf(list.Items[0])
	}
	return tree.ValueOf(list)
}

func encodeRunLimits(l RunLimits) tree.Value {
	run := encodeLimit(policy.LimitRun, l.Run)
	if l.Execution == nil && l.Deadline == nil && (run.IsZero() || tree.NodeOf(run).Kind == tree.Text) {
		return run // a lone amount needs no mapping
	}
	out := object{}
	out.put("execution", encodeLimit(policy.LimitExecution, l.Execution))
	out.put("run", run)
	out.put("deadline", encodeLimit(policy.LimitDeadline, l.Deadline))
	return out.value()
}

// encodeLimits writes a lone limit as its amount.
func encodeLimits(l *policy.Limits, alone policy.LimitKind) tree.Value {
	out := object{}
	for _, kind := range policy.StepLimits {
		limit := l.Get(kind)
		if l.Removed(kind) {
			limit = &policy.Limit{Removed: true}
		}
		out.put(kind.String(), encodeLimit(kind, limit))
	}
	if v := out.value(); !v.IsZero() {
		if only := tree.NodeOf(v).Get(alone.String()); only != nil && len(tree.NodeOf(v).Fields) == 1 &&
			only.Kind == tree.Text {
			return tree.ValueOf(only)
		}
		return v
	}
	return tree.Value{}
}

func encodeLimit(kind policy.LimitKind, l *policy.Limit) tree.Value {
	switch {
	case l == nil:
		return tree.Value{}
	case l.Removed:
		return V("none")
	}
	out := object{}
	if l.At != 0 {
		out.put("at", V(l.At.Std().Format(time.RFC3339Nano)))
	} else {
		out.put("after", encodeAmount(l))
	}
	if l.Retry != kind.RetriesByDefault() {
		out.put("retry", V(l.Retry))
	}
	if l.OnExpire != 0 {
		out.put("onExpire", V(l.OnExpire.String()))
	}
	if l.Warn != 0 {
		out.put("warn", V(fmt.Sprintf("%d%%", l.Warn)))
	}
	if len(out.n.Fields) == 1 {
		return tree.ValueOf(out.n.Fields[0].Value)
	}
	return out.value()
}

func encodeAmount(l *policy.Limit) tree.Value {
	if l.Expr != "" {
		return V(l.Expr)
	}
	return V(duration.Format(l.After))
}

func encodeRetry(r *policy.Retry) tree.Value {
	if r == nil {
		return tree.Value{}
	}
	out, usual := object{}, policy.DefaultRetry()
	if r.MaxAttempts == policy.Unlimited {
		out.put("maxAttempts", V("unlimited"))
	} else {
		out.put("maxAttempts", V(r.MaxAttempts))
	}
	if r.InitialInterval != usual.InitialInterval {
		out.put("initialInterval", V(r.InitialInterval))
	}
	if r.BackoffCoefficient != usual.BackoffCoefficient {
		out.put("backoffCoefficient", V(max(r.BackoffCoefficient, 1)))
	}
	if r.MaxInterval > 0 {
		out.put("maxInterval", V(r.MaxInterval))
	}
	if r.JitterKind == policy.JitterDecorrelated {
		out.put("jitter", V(r.JitterKind.String()))
	} else if r.Jitter > 0 {
		out.put("jitter", V(r.Jitter))
	}
	if r.On != nil && (r.When != "" || !slices.Equal(r.On, usual.On)) {
		kinds := make([]string, len(r.On))
		for i, kind := range r.On {
			kinds[i] = kind.String()
		}
		out.put("on", V(kinds))
	}
	out.text("when", r.When)
	if len(r.NonRetryable) > 0 {
		out.put("nonRetryable", V(r.NonRetryable))
	}
	switch r.MaxLost {
	case 0:
	case policy.Unlimited:
		out.put("maxLost", V("unlimited"))
	default:
		out.put("maxLost", V(r.MaxLost))
	}
	if r.MaxAttempts == 1 && len(out.n.Fields) == 1 {
		return V("none")
	}
	return out.value()
}
