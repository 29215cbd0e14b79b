package flow

import (
	"testing"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// TestEncodeReadsBack checks that a written document reads back as the same document.
func TestEncodeReadsBack(t *testing.T) {
	takesAway := "pawl: 1\nname: x\ndefaults: {timeout: {startToClose: 5s}}\nsteps: [{name: a, " +
		"timeout: {startToClose: none}, noop: {}}]\n"
	for _, src := range append(goodFlows(t), orderFlow, takesAway) {
		doc := mustParse(t, src)
		text, err := Encode(doc)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("again.yaml", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		twice, err := Encode(again)
		if err != nil {
			t.Fatal(err)
		}
		if string(twice) != string(text) {
			t.Fatalf("written\n%s\nread and written again\n%s", text, twice)
		}
		a, b := doc.built, again.built
		for i := range a.plans {
			x, y := a.plans[i].spec, b.plans[i].spec
			if x.Name != y.Name || x.Kind != y.Kind || x.Type != y.Type || x.Queue != y.Queue ||
				!samePolicy(x.Policy, y.Policy) {
				t.Errorf("step %s: %+v became %+v", x.Name, x, y)
			}
			if p, q := a.plans[i].payload, b.plans[i].payload; p != nil && constant(p) != constant(q) {
				t.Errorf("step %s: payload %s became %s", x.Name, constant(p), constant(q))
			}
		}
	}
}

// samePolicy compares but for where the values were configured.
func samePolicy(a, b policy.Policy) bool {
	return string(tree.YAML(policyNode(a))) == string(tree.YAML(policyNode(b)))
}

func policyNode(p policy.Policy) *tree.Node {
	out := object{}
	out.must("retry", encodeRetry(p.Retry))
	out.must("timeout", encodeLimits(&p.Limits, policy.LimitScheduleToClose))
	return tree.NodeOf(out.value())
}

func constant(t *expr.Template) string {
	text, _ := t.Constant()
	return string(text)
}
