package worker

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker/workertest"
	"github.com/pawl-dev/pawl/policy"
)

// TestNoDescriptorsLeft checks that an attempt that cannot begin because the machine has no file descriptors left
// counts for nothing.
func TestNoDescriptorsLeft(t *testing.T) {
	e := newTestExec(t, ExecConfig{LogDir: t.TempDir()})
	e.pause = time.Millisecond
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(os.DevNull) // the lowest number that is free
	if err != nil {
		t.Fatal(err)
	}
	none := syscall.Rlimit{Cur: uint64(f.Fd()) + 1, Max: before.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	res := e.Execute(t.Context(), new(shellTask(t, "exit 0", nil)), workertest.NewSigns())
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if res.Failure == nil || res.Failure.Kind != policy.KindLost || res.Failure.Type != core.TypeNotBegun {
		t.Errorf("%+v", res.Failure)
	}
	again := e.Execute(t.Context(), new(shellTask(t, "exit 0", nil)), workertest.NewSigns())
	if again.Failure != nil {
		t.Errorf("with descriptors: %+v", again.Failure)
	}
}
