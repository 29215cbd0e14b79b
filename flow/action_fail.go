package flow

import (
	"time"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Fail fails, for good or as another kind of failure.
type Fail struct {
	Type, Message tree.Value
	Code          tree.Value
	Kind          tree.Value // error, failed or timeout
	NonRetryable  bool
	RetryAfter    *time.Duration
	ordinary
}

var failKeys = []string{"type", "message", "code", "kind", "nonRetryable", "retryAfter"}

func (*Fail) kind() string { return "fail" }

func (f *Fail) read(p *parsing, n *tree.Node) {
	if n.Kind == tree.Text {
		f.Message = tree.ValueOf(n)
		return
	}
	if !p.object(n, "fail", failKeys) {
		return
	}
	f.Type, f.Message = p.textValue(n.Get("type"), "type"), p.textValue(n.Get("message"), "message")
	if code := n.Get("code"); code != nil {
		if _, whole := code.Scalar.(int); !whole && !expr.HasExpression(code.Text) {
			p.Fail(code.Pos, "", "code is a whole number, not %s", tree.Describe(code))
		}
		f.Code = tree.ValueOf(code)
	}
	if kind := n.Get("kind"); kind != nil {
		kinds := []string{policy.KindError.String(), policy.KindFailed.String(), policy.KindTimeout.String()}
		if !contains(kinds, kind.Text) && !expr.HasExpression(kind.Text) {
			p.Fail(kind.Pos, "", "kind is error, failed or timeout, not %s", tree.Describe(kind))
		}
		f.Kind = tree.ValueOf(kind)
	}
	f.NonRetryable = p.truth(n.Get("nonRetryable"), "nonRetryable")
	f.RetryAfter = p.duration(n.Get("retryAfter"), "retryAfter")
}

func (f *Fail) encode() tree.Value {
	out := object{}
	out.put("type", f.Type)
	out.put("message", f.Message)
	out.put("code", f.Code)
	out.put("kind", f.Kind)
	if f.NonRetryable {
		out.put("nonRetryable", V(true))
	}
	out.duration("retryAfter", f.RetryAfter)
	return out.value()
}

func (*Fail) spec(spec *core.StepSpec) { spec.Type = "fail" }

func (f *Fail) compile(b *builder, p *plan, _ *Step, vars expr.Vars) {
	o := b.compiler.Object(vars)
	o.Text("type", f.Type)
	o.Text("message", f.Message)
	o.Data("code", f.Code)
	o.Text("kind", f.Kind)
	if f.NonRetryable {
		o.Data("nonRetryable", V(true))
	}
	milliseconds(o, "retryAfter", f.RetryAfter)
	p.payload = o.Done()
}
