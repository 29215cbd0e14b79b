// Package examples_test kills the Go programs of the examples with kill -9, as real processes, and looks at what they
// have done.
package examples_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pawlbin"
)

var kills = flag.Int("kills", 16, "how often the programs of the examples are killed, all together")

// program is one of the examples.
type program struct {
	name  string
	size  func(kills int) []string // its flags, so that there is work for so many lives
	input func(kills int) string   // the lines typed in each life
	log   string                   // a file with a line for each thing that it has done outside
	grow  bool                     // a life goes on until the log has grown; else for a time
	use   func(t *testing.T, dir string, kills int) (done <-chan struct{}, args []string)
	runs  func(kills int) int // number of runs in the end
	check func(t *testing.T, r result)
	left  func(t *testing.T, dir string) string // work left by a life whose time was over; empty: none
}

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", fmt.Sprint(len(programs))) // all at once, however few cores there are
	goleak.VerifyTestMain(m)
}

// life is a process of the program.
type life struct {
	cmd    *exec.Cmd
	output strings.Builder
	ended  chan error
}

// TestKilled runs all programs at once and kills each of them at random instants, until it has lived often enough. Then
// it runs to its end, and what it has done outside is held against what its runs have recorded.
func TestKilled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it needs signals")
	}
	nightly.Only(t, "it kills processes for seconds")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var packages []string
	for _, p := range programs {
		packages = append(packages, "./examples/"+p.name)
	}
	bin := pawlbin.Build(t, packages...)
	var killed, spare atomic.Int64
	t.Run("programs", func(t *testing.T) {
		for i, p := range programs {
			n := *kills / len(programs)
			if i < *kills%len(programs) {
				n++
			}
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				p.live(t, filepath.Join(bin, p.name), n, rand.New(rand.NewPCG(seed, uint64(i))), &killed, &spare)
			})
		}
	})
	t.Logf("%d kills", killed.Load())
	if n := int(killed.Load()); n < *kills/2 {
		t.Errorf("only %d kills: the programs ended before the others", n)
	}
}

// live lets a program live until it was killed so often, and then until it ends.
func (p *program) live(t *testing.T, bin string, kills int, rng *rand.Rand, killed, spare *atomic.Int64) {
	dir := t.TempDir()
	args := append([]string{"-dir", dir}, p.size(kills)...)
	var done <-chan struct{}
	if p.use != nil {
		var more []string
		done, more = p.use(t, dir, kills)
		args = append(args, more...)
	}
	died := 0
	for died < kills || take(spare) {
		l := p.start(t, bin, args, kills)
		if !l.after(p, dir, rng) {
			if err := <-l.ended; err != nil {
				t.Fatalf("it ended by itself: %v\n%s", err, l.output.String())
			}
			spare.Add(int64(max(0, kills-died)))
			break // it has done all it had to do: the others die more often
		}
		_ = l.cmd.Process.Kill() // it may have ended
		<-l.ended
		died++
		killed.Add(1)
	}
	l := p.start(t, bin, args, kills)
	if done != nil {
		select {
		case <-done:
			_ = l.cmd.Process.Signal(os.Interrupt)
		case err := <-l.ended:
			t.Fatalf("it ended by itself: %v\n%s", err, l.output.String())
		}
	}
	if err := <-l.ended; err != nil {
		t.Fatalf("its last life: %v\n%s", err, l.output.String())
	}
	t.Logf("%d kills", died)
	p.finish(t, bin, dir, args, kills)
	r := look(t, dir, p.log, died)
	if want := p.runs(kills); len(r.runs) != want && want > 0 {
		t.Errorf("there are %d runs, want %d", len(r.runs), want)
	}
	p.check(t, r)
}

// finish lets a program whose lives are short live again until nothing is left to do. On a busy machine that takes some
// lives more; what is still left after ten of them would be left for ever.
func (p *program) finish(t *testing.T, bin, dir string, args []string, kills int) {
	t.Helper()
	for more := 0; p.left != nil; more++ {
		left := p.left(t, dir)
		switch {
		case left == "":
			return
		case more == 10:
			t.Fatalf("after ten lives more: %s", left)
		}
		t.Logf("it lives again: %s", left)
		l := p.start(t, bin, args, kills)
		if err := <-l.ended; err != nil {
			t.Fatalf("a life more: %v\n%s", err, l.output.String())
		}
	}
}

// take takes one of the kills that a program has left to the others.
func take(spare *atomic.Int64) bool {
	if spare.Add(-1) >= 0 {
		return true
	}
	spare.Add(1)
	return false
}

func (p *program) start(t *testing.T, bin string, args []string, kills int) *life {
	t.Helper()
	l := &life{cmd: exec.CommandContext(t.Context(), bin, args...), ended: make(chan error, 1)}
	l.cmd.Stdout, l.cmd.Stderr = &l.output, &l.output
	if p.input != nil {
		l.cmd.Stdin = strings.NewReader(p.input(kills))
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { l.ended <- l.cmd.Wait() }()
	return l
}

// after waits until the process is to be killed: some time after it has done something, or at any instant. It reports
// whether the process was still there.
func (l *life) after(p *program, dir string, rng *rand.Rand) bool {
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, p.log))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	begin, before := time.Now(), size()
	lasts := time.Duration(20+rng.IntN(600)) * time.Millisecond
	every := time.NewTicker(time.Millisecond)
	defer every.Stop()
	for {
		select {
		case err := <-l.ended:
			l.ended <- err
			return false
		case <-every.C:
			if p.grow && size() == before {
				begin = time.Now()
			} else if time.Since(begin) >= lasts {
				return true
			}
		}
	}
}

// retry tries again and again until there is no error.
func retry(ctx context.Context, try func() error) error {
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

func flags(pairs ...any) []string {
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, "-"+fmt.Sprint(pairs[i]), fmt.Sprint(pairs[i+1]))
	}
	return out
}

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}
