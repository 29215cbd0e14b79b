package facetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/nightly"
	_ "github.com/pawl-dev/pawl/journal/sqlite" // the database that survives
)

// crashDir, where set, makes the test binary the program that is killed: its database and what it did lie there.
const crashDir = "PAWL_TEST_CRASH_DIR"

const (
	crashOrders = 1000
	crashSteps  = 5
)

// order returns a workflow whose steps leave a line each in a file outside.
func order(trace *os.File) *pawl.Workflow[int, int] {
	return pawl.Define("order", func(ctx pawl.Context, n int) (int, error) {
		for i := range crashSteps {
			_, err := pawl.Step(ctx, fmt.Sprint("step", i), func(ctx context.Context) (int, error) {
				if _, err := fmt.Fprintln(trace, n, i, pawl.Attempt(ctx).Number); err != nil { // one write, appended
					return 0, err
				}
				return i, wait(ctx, time.Duration(n%10)*time.Millisecond)
			}, pawl.Timeout("1h"), pawl.Retry("fixed(3, 10ms)"))
			if err != nil {
				return 0, err
			}
			if err := pawl.Sleep(ctx, "settle", time.Duration(50+n%1000)*time.Millisecond); err != nil {
				return 0, err
			}
		}
		return n, nil
	}, pawl.ExecutionTimeout("1h"))
}

// takeOrders runs the program: it takes all orders, those of an earlier life among them, and ends when they have
// ended.
func takeOrders(dir string) error {
	trace, err := os.OpenFile(filepath.Join(dir, "trace"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w := order(trace)
	ctx := context.Background()
	e, err := pawl.Open(ctx, pawl.Config{
		Database:  "sqlite:" + filepath.Join(dir, "pawl.db"),
		Workflows: []pawl.Definition{w},
	})
	if err != nil {
		return err
	}
	results := make(chan error)
	limit := make(chan struct{}, 64)
	for n := range crashOrders {
		go func() {
			limit <- struct{}{}
			r, err := w.Start(ctx, e, "", n, pawl.IdempotencyKey(strconv.Itoa(n)))
			<-limit
			if err == nil {
				var got int
				if got, err = r.Result(ctx); err == nil && got != n {
					err = fmt.Errorf("order %d returned %d", n, got)
				}
			}
			if errors.Is(err, pawl.ErrWorkerLost) {
				err = nil // checkRuns looks whether it was that
			}
			results <- err
		}()
	}
	for range crashOrders {
		err = errors.Join(err, <-results)
	}
	return errors.Join(err, e.Close())
}

// TestCrash kills a program at random instants. PAWL_TEST_CRASHES sets how often; default 10, and 1 under -short.
func TestCrash(t *testing.T) {
	crashes := nightly.Few(1, 10)
	if text := os.Getenv("PAWL_TEST_CRASHES"); text != "" {
		crashes, _ = strconv.Atoi(text)
	}
	dir := t.TempDir()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range crashes + 1 {
		// A kill comes at any instant: before the program has opened its database, or with a thousand steps in
		// flight. However slow the machine is, half of the lives begin to count when something has happened.
		life, busy := time.Duration(20+rng.IntN(100))*time.Millisecond, rng.IntN(2) == 0
		if i == crashes {
			life = 0
		}
		liveOnce(t, crashDir+"="+dir, life, busy, filepath.Join(dir, "trace"))
	}
	checkRuns(t, dir, checkTrace(t, filepath.Join(dir, "trace")))
}

// liveOnce runs this test's program, and kills it after a life as killAfter does; 0: it lives until it ends.
func liveOnce(t *testing.T, env string, life time.Duration, busy bool, trace string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), env)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err, killed := error(nil), false
	if life > 0 {
		err, killed = killAfter(cmd, ended, life, busy, trace)
	} else {
		err = <-ended
	}
	if err != nil && !killed {
		t.Fatalf("a life of %s: %v\n%s", life, err, stderr.String())
	}
}

// killAfter kills the program once it has lived for so long, counted from its first line in the trace where it is to be
// busy, and waits for its end.
func killAfter(cmd *exec.Cmd, ended <-chan error, life time.Duration, busy bool,
	trace string,
) (err error, killed bool) {
	size := func() int64 {
		if info, err := os.Stat(trace); err == nil {
			return info.Size()
		}
		return 0
	}
	begin, before := time.Now(), size()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			return err, false
		case <-look.C:
			if busy && size() == before {
				begin = time.Now()
			} else if time.Since(begin) >= life {
				_ = cmd.Process.Kill() // it may have ended
				return <-ended, true
			}
		}
	}
}

// checkTrace holds what happened outside against the promise: a finished step is not run again. A step begins only
// after the one before is durably finished, so no line of that one may follow. It returns how often each order's last
// step has begun.
func checkTrace(t *testing.T, path string) (begun map[int]int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	last, begun := map[int]int{}, map[int]int{}
	repeated, lines := 0, 0
	for s := bufio.NewScanner(f); s.Scan(); lines++ {
		var n, step, attempt int
		if _, err := fmt.Sscan(s.Text(), &n, &step, &attempt); err != nil {
			t.Fatalf("%q: %v", s.Text(), err)
		}
		before, seen := last[n]
		switch {
		case seen && step < before:
			t.Errorf("order %d: step %d ran again after step %d", n, step, before)
		case seen && step == before:
			repeated++ // it was in flight when the program died
		default:
			begun[n] = 0
		}
		last[n] = step
		begun[n]++
	}
	if len(last) != crashOrders {
		t.Errorf("%d orders left a trace, want %d", len(last), crashOrders)
	}
	t.Logf("%d lines, %d of them by attempts after a crash", lines, repeated)
	return begun
}

// checkRuns holds the database against the promise: every order has ended once, and no deadline has moved. Five
// attempts lost in a row stop a step, for it may be what kills its worker; where a machine is so busy that the program
// dies a moment after each beginning, that is right, but not for a step whose function never began, and not for many.
func checkRuns(t *testing.T, dir string, begun map[int]int) {
	t.Helper()
	e, err := pawl.Open(t.Context(), pawl.Config{
		Database:  "sqlite:" + filepath.Join(dir, "pawl.db"),
		Workflows: []pawl.Definition{order(nil)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	runs, err := e.ListRuns(t.Context(), client.Query{Workflow: "order", Limit: 2 * crashOrders})
	if err != nil || len(runs) != crashOrders {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	stopped := 0
	for _, r := range runs {
		if !r.Deadline.Equal(r.CreatedAt.Add(time.Hour)) {
			t.Errorf("run %s is %s, created %s, deadline %s", r.ID, r.Phase, r.CreatedAt, r.Deadline)
		}
		d, err := e.DescribeRun(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.Atoi(string(d.Input))
		if r.Phase != "succeeded" {
			stopped++
			if last := d.Steps[len(d.Steps)-1]; last.Reason.String() != "worker_lost" ||
				begun[n] == 0 || stopped > crashOrders/50 {
				t.Errorf("run %s is %s; its last step began %d times: %+v", r.ID, r.Phase, begun[n], last)
			}
		}
		for _, s := range d.Steps {
			if !strings.HasPrefix(s.Name, "settle") && !s.Deadline.Equal(s.Scheduled.Add(time.Hour)) {
				t.Errorf("run %s, step %s: scheduled %s, deadline %s", r.ID, s.Name, s.Scheduled, s.Deadline)
			}
		}
	}
}
