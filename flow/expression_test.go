package flow

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// evaluate gives the JSON of a noop's output.
func evaluate(t *testing.T, output, input string) (string, *policy.Failure) {
	t.Helper()
	payload, f := firstTask(t, &Document{
		Name: "x", Steps: []*Step{{Name: "a", Action: &Noop{Output: V(output)}}},
	}, []byte(input))
	return strings.TrimSuffix(strings.TrimPrefix(string(payload), `{"output":`), "}"), f
}

// firstTask gives the payload of the first step of a flow.
func firstTask(t *testing.T, doc *Document, input []byte) ([]byte, *policy.Failure) {
	t.Helper()
	def, err := Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	r := core.NewRun(core.RunID{4})
	if _, err := core.Advance(r, def, core.Start{Workflow: doc.Name, Input: input}, start); err != nil {
		t.Fatal(err)
	}
	return def.NewDecider(r).Task(r, &r.Steps[0], start)
}

// task works as firstTask, for expressions that can be evaluated.
func task(t *testing.T, doc *Document, input []byte) []byte {
	t.Helper()
	payload, f := firstTask(t, doc, input)
	if f != nil {
		t.Fatal(f)
	}
	return payload
}

func TestEvaluation(t *testing.T) {
	const input = `{"a": 1, "s": "x", "l": [3, 1, 2], "m": {"b": 2, "a": 1}, "n": null, ` +
		`"big": 12345678901234567, "huge": 18446744073709551615, "f": 1.5, "q": "a\"b"}`
	for _, c := range []struct{ template, want string }{
		{"plain", `"plain"`},
		{"${{ input.a }}", `1`},
		{"${{ input.a }} ", `"1 "`},
		{"v${{ input.a }}${{ input.s }}", `"v1x"`},
		{"${{ input.n }}", `null`},
		{"[${{ input.n ?? '' }}]", `"[]"`},
		{"[${{ input.n?.x ?? 1 }}${{ input.n.x.y ?? 2 }}${{ input.missing[0].y ?? 3 }}]", `"[123]"`},
		{"${{ input.missing }}", `null`},
		{"${{ input.missing?.x ?? 'd' }}", `"d"`},
		{"${{ input.big }}", `12345678901234567`},
		{"${{ input.huge }}", `18446744073709551615`},
		{"${{ input.f * 2 }}", `3`},
		{"${{ input.f }}", `1.5`},
		{"${{ input.m }}", `{"a":1,"b":2}`},
		{"x ${{ input.m }}", `"x {\"a\":1,\"b\":2}"`},
		{"${{ keys(input.m) }}", `["a","b"]`},
		{"${{ values(input.m) }}", `[1,2]`},
		{"${{ toPairs(input.m) }}", `[["a",1],["b",2]]`},
		{"${{ map(sort(input.l), # * 2) }}", `[2,4,6]`},
		{"${{ filter(input.l, # > 1) }}", `[3,2]`},
		{"${{ string(input.m) }}", `"map[a:1 b:2]"`},
		{"${{ string(input.f) + string(1 + 1) + string([1, 2]) }}", `"1.52[1 2]"`},
		{"${{ string(date('2026-01-02T15:04:05Z')) }}", `"2026-01-02 15:04:05 +0000 UTC"`},
		{"${{ {a: {b: 1}} }}", `{"a":{"b":1}}`},
		{"${{ '}}' + input.s }}", `"}}x"`},
		{"${{ input.s + 'y' }}", `"xy"`},
		{"${{ input.a + 1 }}", `2`},
		{"${{ input.q }}", `"a\"b"`},
		{"$${{ input.a }} ${{ input.a }}", `"${{ input.a }} 1"`},
		{"$${{ x }}", `"${{ x }}"`},
		{"${{ now }}", `"2030-01-01T12:00:00Z"`},
		{"${{ now + duration('1h') }}", `"2030-01-01T13:00:00Z"`},
		{"at ${{ now.Year() }}", `"at 2030"`},
		{"${{ duration('90s') }}", `"1m30s"`},
		{"${{ run.workflow }} ${{ run.phase }} ${{ run.attempt }}", `"x running 1"`},
		{"${{ attempt }}", `1`},
		{"${{ failure?.message }}", `null`},
		{"${{ split('a,b', ',') }}", `["a","b"]`},
		{"${{ join(['a', 'b'], '-') }}", `"a-b"`},
		{"${{ replace('aXa', 'X', 'b') }}", `"aba"`},
		{"${{ 1..3 }}", `[1,2,3]`},
		{"${{ input.s matches '^x$' ? 'yes' : 'no' }}", `"yes"`},
		{"${{ let d = input.a; d + d }}", `2`},
		{"${{ toJSON({'b': [1, nil, '<'], 'a': 2.0}) }}", `"{\"a\":2,\"b\":[1,null,\"<\"]}"`},
	} {
		got, f := evaluate(t, c.template, input)
		if f != nil || got != c.want {
			t.Errorf("%s: got %s %v, want %s", c.template, got, f, c.want)
		}
	}
}

// TestRefusal checks that a refusal of an expression is told in its own words, and that another failure shows the
// expression, a long one shortened.
func TestRefusal(t *testing.T) {
	const input = `{"l": [1, 2, 3]}`
	got, f := evaluate(t, `${{ len(input.l) == 3 ? "as it should be" : fail("too few") }}`, input)
	if f != nil || got != `"as it should be"` {
		t.Errorf("got %s %v", got, f)
	}
	_, f = evaluate(t,
		`${{ concat(input.l, len(input.l) < 3 ? [] : fail("there are " + string(len(input.l)))) }}`, input)
	if f == nil || f.Message != "there are 3" || f.Type != "expression" || !f.NonRetryable {
		t.Errorf("it fails with %+v", f)
	}
	// The text that Go prints for a time zone is an address, which is another one each time.
	for _, expression := range []string{
		"string(timezone('Europe/Berlin'))", "'in ' + string([timezone('UTC')])", "toJSON(timezone('UTC'))",
		"timezone('UTC')", "join([timezone('UTC')])", "toJSON({'a': timezone('UTC')})",
	} {
		if got, f := evaluate(t, "${{ "+expression+" }}", input); f == nil || f.Type != "expression" ||
			strings.Contains(f.Message, "0x") {
			t.Errorf("%s: got %s %+v", expression, got, f)
		}
	}
	_, f = evaluate(t, "${{ input.l[7] + "+strings.Repeat("1 + ", 100)+"1 }}", input)
	if f == nil || !strings.Contains(f.Message, "in input.l[7] + 1") || !strings.HasSuffix(f.Message,
		"…") || len(f.Message) > 250 {
		t.Errorf("it fails with %+v", f)
	}
}

// TestBoundedEvaluation checks that small expressions that would take all time or memory end with an error.
func TestBoundedEvaluation(t *testing.T) {
	const input = `{"l": [1, 2, 3]}`
	for _, expression := range []string{
		"count(1..100000, count(1..100000, true) > 0)",
		"reduce(1..64, #acc + #acc, 'xxxxxxxxxx')",
		"reduce(1..64, replace(#acc, 'x', 'xx'), 'x')",
		"reduce(1..64, join([#acc, #acc]), 'x')",
		"repeat('x', 100000000)",
		"1..100000000",
		"reduce(1..64, concat(#acc, #acc), [1])",
		"reduce(1..40, [#acc, #acc], 1)",
		"1 / 0 * 1.0",
		"{'a': now.Sub}",
	} {
		if got, f := evaluate(t, "${{ "+expression+" }}", input); f == nil {
			t.Errorf("%s: no error, %.50s", expression, got)
		} else if f.Kind != policy.KindFailed || f.Type != "expression" {
			t.Errorf("%s: %+v", expression, f)
		}
	}
}

// TestVariables checks that a dialect gives its expressions the names its language promises.
func TestVariables(t *testing.T) {
	tasks := Variable{Name: "tasks", Value: func(v View) any {
		tasks := map[string]any{}
		for _, name := range v.Steps() {
			phase, output, failure := v.Step(name)
			task := map[string]any{"phase": phase, "outputs": map[string]any{"parameters": output}}
			if failure != nil {
				task["code"], task["msg"] = failure.Code, failure.Message
			}
			tasks[name] = task
		}
		return tasks
	}}
	doc := &Document{Name: "x", Variables: []Variable{tasks}, Steps: []*Step{{
		Name: "a", Action: &Exec{Shell: V("x")},
		Policy: policy.Policy{Retry: &policy.Retry{
			MaxAttempts: 3,
			When:        "tasks.a.code == 7 && tasks.a.msg contains 'busy'",
		}},
	}}}
	w := newWorld(t, doc, "a: error 7 busy\na: error 8 busy")
	w.run()
	if w.tried["a"] != 2 || w.run_.Phase != core.RunFailed {
		t.Fatal(w.log.String())
	}
}

// TestMatchOfAnOperator checks that a condition of a new policy is compiled when it is first asked.
func TestMatchOfAnOperator(t *testing.T) {
	doc := mustParse(t, "pawl: 1\nname: x\nsteps: [{name: a, exec: x}]")
	def, _ := Compile(doc)
	r := core.NewRun(core.RunID{5})
	if _, err := core.Advance(r, def, core.Start{Workflow: "x"}, start); err != nil {
		t.Fatal(err)
	}
	d, f := def.NewDecider(r), &policy.Failure{Kind: policy.KindError, Code: 3}
	for when, want := range map[string]judge.Match{
		"failure.output.left == 2": {Matched: true}, "failure.output.left == 3": {},
		"code == 3": {Matched: true}, "code == 4": {}, "kode == 3": {Error: "unknown name kode"},
		"failure.details": {Error: "a condition is true or false, this is null"},
	} {
		if got := d.Match(r, &r.Steps[0], when, f, []byte(`{"left": 2}`), start); got != want {
			t.Errorf("%s: %+v", when, got)
		}
	}
}
