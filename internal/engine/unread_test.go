package engine

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// TestUnreadableAtPresent checks the error of a read that fails because of the storage: it does not say that something
// may have been saved.
func TestUnreadableAtPresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		var failing atomic.Bool
		j.Fault = func(op memory.Op, _ *journal.Batch) error {
			if failing.Load() && (op == memory.OpHistory || op == memory.OpList || op == memory.OpDefinition) {
				return errors.New("the connection is gone")
			}
			return nil
		}
		e := openOn(t, j)
		defer closeEngine(t, e)
		s, err := e.Start(t.Context(), StartRequest{Definition: flow("one").definition()})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(24 * time.Hour) // nothing of it is in memory any more
		failing.Store(true)
		reads := map[string]func() error{
			"entries":    func() error { _, err := e.Entries(t.Context(), s.Run, 0); return err },
			"list":       func() error { _, err := e.List(t.Context(), journal.Query{Limit: 1}); return err },
			"definition": func() error { _, err := e.Definition(t.Context(), core.DefinitionID{7}); return err },
		}
		for name, read := range reads {
			switch err := read(); {
			case err == nil:
				t.Errorf("%s: no error", name)
			case api.CodeOf(err) != CodeUncertain || strings.Contains(err.Error(), "saved") ||
				!strings.Contains(err.Error(), "ask again"):
				t.Errorf("%s: %v", name, err)
			}
		}
		failing.Store(false)
	})
}
