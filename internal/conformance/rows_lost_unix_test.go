//go:build unix

package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
)

const (
	poisonedDir  = "PAWL_TEST_POISONED" // the directory of the helper process
	poisonedLife = "PAWL_TEST_LIFE"     // how often it was started
	harmless     = 50
)

func init() { rows["B6"] = oneStepKills }

// TestMain runs the tests, or acts as the helper process of B6.
func TestMain(m *testing.M) {
	dir := os.Getenv(poisonedDir)
	if dir == "" {
		goleak.VerifyTestMain(m)
	}
	if err := poisoned(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// poisoned runs a program with one step that kills its process beside others that do not. It ends when all runs have.
func poisoned(dir string) error {
	life, err := strconv.Atoi(os.Getenv(poisonedLife))
	if err != nil {
		return err
	}
	trace, err := os.OpenFile(filepath.Join(dir, "trace"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	var begun atomic.Int32
	all := make(chan struct{})
	work := pawl.Define("work", func(ctx pawl.Context, n int) (int, error) {
		return pawl.Step(ctx, "work", func(ctx context.Context) (int, error) {
			fmt.Fprintln(trace, "work", n)
			if begun.Add(1) == harmless {
				close(all)
			}
			if life <= 2 { // the step is in flight when the process dies
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return n, nil
		})
	})
	poison := pawl.Define("poison", func(ctx pawl.Context, _ int) (int, error) {
		return pawl.Step(ctx, "poison", func(ctx context.Context) (int, error) {
			fmt.Fprintln(trace, "poison")
			if life <= 2 {
				<-all
			}
			return 0, errors.Join(syscall.Kill(os.Getpid(), syscall.SIGKILL), context.Cause(ctx))
		}, pawl.Retry(pawl.RetryPolicy{MaxLost: 2}))
	})
	e, err := pawl.Open(context.Background(), pawl.Config{
		Database: "sqlite:" + filepath.Join(dir, "pawl.db") + "?partitions=2", Concurrency: 2 * harmless,
		Workflows: []pawl.Definition{work, poison},
	})
	if err != nil {
		return err
	}
	ends := make(chan error, harmless+1)
	for n := range harmless + 1 {
		go func() {
			w := work
			if n == harmless {
				w = poison
			}
			key := strconv.Itoa(n)
			r, err := w.Start(context.Background(), e, key, n, pawl.IdempotencyKey(key))
			if err == nil {
				_, err = r.Result(context.Background())
			}
			if n == harmless && errors.Is(err, pawl.ErrWorkerLost) {
				err = nil
			} else if err == nil && n == harmless {
				err = errors.New("the poisonous step was not stopped")
			}
			ends <- err
		}()
	}
	for range harmless + 1 {
		err = errors.Join(err, <-ends)
	}
	return errors.Join(err, e.Close())
}

// oneStepKills checks a step that kills its process beside 50 others. Twice they die together. Then all of them are
// suspects, and run in groups of at most 16, then 4, then one at a time: the others succeed, and the poisonous one is
// stopped when it has killed two processes alone.
func oneStepKills(t *testing.T) {
	dir := t.TempDir()
	deaths := 0
	for life := 1; ; life++ {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), poisonedDir+"="+dir, poisonedLife+"="+strconv.Itoa(life))
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err == nil {
			break
		}
		status, ok := syscall.WaitStatus(0), errors.As(err, &exit)
		if ok {
			status, ok = exit.Sys().(syscall.WaitStatus)
		}
		if !ok || status.Signal() != syscall.SIGKILL || life > 20 {
			t.Fatalf("life %d: %v\n%s", life, err, out)
		}
		deaths++
	}
	if deaths != 6 {
		t.Errorf("the process died %d times, want 6", deaths)
	}
	text, err := os.ReadFile(filepath.Join(dir, "trace"))
	if err != nil {
		t.Fatal(err)
	}
	begun := map[string]int{}
	for line := range strings.Lines(string(text)) {
		begun[strings.TrimSpace(line)]++
	}
	again, alone := 0, 0 // that were beside the poisonous step in its group of 16, and in that of 4
	for name, n := range begun {
		switch {
		case name == "poison" && n != 6, name != "poison" && (n < 3 || n > 5):
			t.Errorf("%s began %d times; want 6 of the poisonous step, and 3 to 5 of each other", name, n)
		case name != "poison" && n == 4:
			again++
		case name != "poison" && n == 5:
			alone++
		}
	}
	if again+alone > 15 || alone > 3 {
		t.Errorf("%d steps began a fourth time and %d of them a fifth time, want 15 and 3 at most", again+alone, alone)
	}
	if len(begun) != harmless+1 {
		t.Errorf("%d steps have begun", len(begun))
	}
}
