package service

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// TestOperations checks that the operations of the API have the machine's names.
func TestOperations(t *testing.T) {
	for op := core.Op(0); ; op++ {
		if strings.HasPrefix(op.String(), "unknown") || op.String() == "" && op > 0 {
			break
		}
		if op.String() == "" {
			continue
		}
		in, err := operation(api.Operation{Operation: op.String(), Remove: op == core.OpExtend})
		if err != nil || in.Op != op {
			t.Errorf("%s: %+v, %v", op, in, err)
		}
	}
	for _, name := range []string{
		api.OpCancelGracefully, api.OpCancel, api.OpTerminate, api.OpPause, api.OpResume, api.OpRetryRun,
		api.OpRetryStep, api.OpSkip,
		api.OpComplete, api.OpFail, api.OpNow, api.OpSetPolicy, api.OpExtend,
	} {
		if _, err := operation(api.Operation{Operation: name}); err != nil {
			t.Error(err)
		}
	}
}

// TestPanicOfOneRun checks that when a run's own code panics, only calls about that run fail.
func TestPanicOfOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		good := b.start(api.StartRequest{})
		bad := b.start(api.StartRequest{WorkflowID: "bad"})
		<-time.After(time.Hour)
		read := func(d journal.Definition) (*Prepared, error) {
			w, err := readFlow(d)
			if err == nil {
				w.Definition.Tolerates = func(*core.Step) bool { panic("a bug") }
			}
			return w, err
		}
		s := NewEmbedded(b.engine, read, now)
		_, err := s.Run(t.Context(), "bad")
		b.code("a run whose code panics", err, api.CodeInternal)
		_, err = s.Run(t.Context(), bad) // the lock is free
		b.code("once more", err, api.CodeInternal)
		if r := b.mustRun(b.run, good); r.Phase != api.RunFailed {
			t.Errorf("%+v", r)
		}
	})
}
