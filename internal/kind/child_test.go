package kind_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
)

// TestChildren checks what the payload of a child step may say.
func TestChildren(t *testing.T) {
	find := kind.Children(func(_ core.DefinitionID, name string) (journal.Definition, error) {
		if name != "pay" {
			return journal.Definition{}, errors.New("it is not registered here")
		}
		return journal.Definition{Name: name}, nil
	})
	c, err := find(core.DefinitionID{}, []byte(`{"name": "pay", "input": { "n": 1 }, "close": "abandon"}`))
	if err != nil || c.Definition.Name != "pay" || string(c.Input) != `{ "n": 1 }` || c.Close != core.ChildAbandon {
		t.Errorf("%+v, %v", c, err)
	}
	for payload, want := range map[string]string{
		`pay`:                           "the payload of the child step cannot be read: ",
		`{"name": "pays"}`:              `there is no workflow "pays": it is not registered here`,
		`{"name": "pay", "close": "x"}`: `unknown parent-close policy "x": use cancel, terminate or abandon`,
	} {
		if _, err := find(core.DefinitionID{}, []byte(payload)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", payload, err, want)
		}
	}
}
