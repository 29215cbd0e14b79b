package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/pawltest"
)

// asProgram, where set, makes the test binary the program that is killed.
const asProgram = "SAGA_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

const orders = 150

// life starts the program.
func life(t *testing.T, dir string) (cmd *exec.Cmd, ended chan error) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0], "-dir", dir, "-orders", fmt.Sprint(orders), "-pace", "200ms")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() {
		err := cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, out.String())
		}
		ended <- err
	}()
	return cmd, ended
}

// count counts the lines of the ledger with that in them.
func count(dir, what string) int {
	b, _ := os.ReadFile(filepath.Join(dir, "ledger"))
	return strings.Count(string(b), what)
}

// after waits until the ledger has so many such lines more, or the program has ended.
func after(ended chan error, dir, what string, more int) {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for from := count(dir, what); count(dir, what) < from+more && len(ended) == 0; {
		<-look.C
	}
}

// TestKilledAndCancelled kills the program at random instants, before and after Ctrl-C was pressed in one of its lives.
func TestKilledAndCancelled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be sent Ctrl-C there")
	}
	dir := t.TempDir()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	lives := nightly.Few(4, 12)
	cancelIn := rng.IntN(3)
	for i := range lives {
		cmd, ended := life(t, dir)
		switch {
		case i == cancelIn:
			after(ended, dir, "charge", 1+rng.IntN(20)) // the program listens by then
			if err := cmd.Process.Signal(os.Interrupt); err != nil && len(ended) == 0 {
				t.Fatal(err)
			}
			after(ended, dir, "refund", orders/5+1+rng.IntN(30)) // more than those that cannot be shipped
		case i < lives-1:
			after(ended, dir, "\n", 1+rng.IntN(40))
		}
		if i < lives-1 && len(ended) == 0 {
			_ = cmd.Process.Kill() // it may have ended
			<-ended
		} else if err := <-ended; err != nil {
			t.Fatalf("life %d: %v", i, err)
		}
	}
	check(t, dir)
}

// check holds the ledger against the runs.
func check(t *testing.T, dir string) {
	t.Helper()
	done := map[string]map[string]int{}
	f, err := os.Open(filepath.Join(dir, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		what, id, _ := strings.Cut(s.Text(), " ")
		if done[id] == nil {
			done[id] = map[string]int{}
		}
		done[id][what]++
	}
	w := (&shop{}).workflow()
	eng, err := pawl.Open(t.Context(), pawl.Config{
		Database: "sqlite:" + filepath.Join(dir, "saga.db"), Workflows: []pawl.Definition{w},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	phases := map[client.Phase]int{}
	for i := range orders {
		id := fmt.Sprintf("order-%d", i+1)
		run, err := eng.DescribeRun(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		phases[run.Phase]++
		is := done[id]
		shipped := is["ship"] == 1
		whole := is["charge"] == 1 && is["reserve"] == 1 && is["refund"] == 0 && is["release"] == 0
		undone := is["charge"] == is["refund"] && is["reserve"] == is["release"] &&
			is["charge"] <= 1 && is["reserve"] <= 1
		if is["ship"] > 1 || shipped && !whole || !shipped && !undone || run.Phase == "succeeded" && !shipped {
			t.Errorf("%s is %s, and was half done: %v", id, run.Phase, is)
		}
		times := map[string]int{}
		for _, s := range run.Steps {
			if times[s.Name]++; times[s.Name] > 1 {
				t.Errorf("%s: step %s is recorded twice", id, s.Name)
			}
			if (s.Name == "refund" || s.Name == "release") && s.Phase != "succeeded" {
				t.Errorf("%s: step %s is %s", id, s.Name, s.Phase)
			}
		}
		if !shipped && is["charge"] != times["refund"] && times["refund"] != 1 {
			t.Errorf("%s: charged %d times, and %d refunds are recorded", id, is["charge"], times["refund"])
		}
	}
	t.Logf("%v", phases)
	if phases["failed"]+phases["succeeded"]+phases["cancelled"] != orders || phases["cancelled"] == 0 {
		t.Errorf("%v", phases)
	}
}

// TestSagaInVirtualTime shows how to test a saga without processes: fakes replace the failing parts, and a cancel
// comes at any instant.
func TestSagaInVirtualTime(t *testing.T) {
	for _, at := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second} {
		l, err := openLedger(filepath.Join(t.TempDir(), "ledger"), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		w := (&shop{l, time.Second}).workflow()
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			pawltest.FakeStep[any](e, "refund").Optional().Fail(errors.New("the bank does not answer")).Times(2).
				Do(func(ctx context.Context, _ client.AttemptInfo) (any, error) {
					return nil, l.undo(ctx, "refund", "charge", "42")
				})
			r, err := w.Start(t.Context(), e, "", order{ID: "42", Item: "book"})
			if err != nil {
				t.Fatal(err)
			}
			e.Skip(at)
			if err := r.Cancel(t.Context(), "changed their mind"); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Result(t.Context()); !errors.Is(err, pawl.ErrCancelled) {
				t.Error(err)
			}
			for _, pair := range [][2]string{{"charge", "refund"}, {"reserve", "release"}} {
				if l.done[entry{pair[0], "42"}] != l.done[entry{pair[1], "42"}] {
					t.Errorf("cancelled after %s: %s without %s", at, pair[0], pair[1])
				}
			}
		}, w)
	}
}
