package flow

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
)

const queueFlow = `pawl: 1
name: bill
queue: QUEUE
queues: {bills: {concurrency: 2, perKey: 1}}
steps: [{name: work, noop: {}}]
`

func TestRunQueue(t *testing.T) {
	for _, c := range []struct {
		queue, input string
		want         core.RunQueue
	}{
		{`bills`, `null`, core.RunQueue{Name: "bills"}},
		{`{name: bills, priority: -3}`, `{}`, core.RunQueue{Name: "bills", Priority: -3}},
		{`{name: bills, key: "${{ input.tenant }}/x"}`, `{"tenant":"a"}`, core.RunQueue{Name: "bills", Key: "a/x"}},
	} {
		doc, err := Parse("bill.yaml", []byte(strings.Replace(queueFlow, "QUEUE", c.queue, 1)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := Encode(doc)
		if err != nil {
			t.Fatal(err)
		}
		if doc, err = Parse("again.yaml", text); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		def, err := Compile(doc)
		if err != nil {
			t.Fatal(err)
		}
		got, err := def.RunQueue([]byte(c.input))
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.queue, got, err, c.want)
		}
		if l := def.Queues["bills"]; l == nil || l.Concurrency != 2 || l.PerKey != 1 {
			t.Errorf("%s: the limits are %+v", c.queue, l)
		}
	}
}

func TestRunQueueErrors(t *testing.T) {
	for queue, want := range map[string]string{
		`{key: x}`:                      "the queue has no name",
		`""`:                            "the name of a queue is empty",
		`"a b"`:                         "letters, digits",
		`{name: bills, priority: 5000}`: "priority",
		`{name: bills, keys: x}`:        "keys",
		`{name: bills, key: "${{ steps.work }}"}`: "steps",
		`[bills]`: "the name of a queue",
	} {
		_, err := Parse("bill.yaml", []byte(strings.Replace(queueFlow, "QUEUE", queue, 1)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", queue, err, want)
		}
	}
	text := strings.Replace(queueFlow, "QUEUE", `{name: bills, key: "${{ input.a.b }}"}`, 1)
	doc, err := Parse("bill.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	def, err := Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := def.RunQueue([]byte(`{"a":5}`)); err == nil || !strings.Contains(err.Error(), `a number has no "b"`) {
		t.Errorf("a key without a value: %v", err)
	}
}
