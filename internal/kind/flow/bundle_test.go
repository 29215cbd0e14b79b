package flow_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/journal"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/worker"
)

// TestTemplateFiles checks that the files of templates are stored with the flow. It is read without them later, and is
// another definition when one of them has changed.
func TestTemplateFiles(t *testing.T) {
	src := "pawl: 1\nname: a\ntemplates: {t: {from: lib/t.yaml}}\nsteps: [{name: s, template: t}]\n"
	stored := func(output string) journal.Definition {
		doc, err := flowkind.Parse("a.yaml", src, func(string) ([]byte, error) {
			return []byte("pawl: 1\ntemplates: {t: {noop: {output: " + output + "}}}\n"), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		f, err := flowkind.Of(doc)
		if err != nil {
			t.Fatal(err)
		}
		d, err := f.Bundle.Definition("a")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	one, again, two := stored("1"), stored("1"), stored("2")
	if one.ID != again.ID || one.ID == two.ID {
		t.Errorf("the ids are %s, %s and %s", one.ID, again.ID, two.ID)
	}
	f, err := flowkind.Read(two)
	if err != nil {
		t.Fatal(err)
	}
	if noop, ok := f.Document.Steps[0].Action.(*flow.Noop); !ok || noop.Output.Any() != 2 || f.Bundle.Flow.Text != src {
		t.Errorf("read again it is %+v", f.Bundle)
	}
	two.Source = []byte(`{"flow":{"file":"a.yaml","text":` + strconv.Quote(src) + `},"version":1}`)
	two.ID = flow.ID(two.Source)
	if _, err := flowkind.Read(two); err == nil || !strings.Contains(err.Error(), "not stored with the flow") {
		t.Errorf("without the file: %v", err)
	}
}

// TestAttemptVariables checks that each variable that a worker sets itself is refused in a flow.
func TestAttemptVariables(t *testing.T) {
	for _, name := range worker.AttemptVariables {
		if _, err := flowkind.Parse("a.yaml", text("a", "exec: {shell: env, env: {"+name+": x}}"), nil); err == nil {
			t.Errorf("%s can be set, and has no effect", name)
		}
	}
}
