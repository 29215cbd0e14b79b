package worker

import (
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/pawl-dev/pawl/internal/worker/workertest"
	"github.com/pawl-dev/pawl/policy"
)

// ownOwner returns an owner that no other run of the tests has.
func ownOwner(name string) string { return name + " " + strconv.Itoa(os.Getpid()) }

// startWorker starts a worker in a process of its own. The worker executes the shell line.
func startWorker(t *testing.T, owner, line string, f *fifo) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "WORKER_TEST_ROLE=worker", "WORKER_TEST_SHELL="+line,
		"WORKER_TEST_OWNER="+owner, "FIFO="+f.path,
		"TMPDIR="+t.TempDir()) // the worker is killed and leaves its files there
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	f.line()
	return cmd
}

func TestProcessDiesWithItsWorker(t *testing.T) {
	f := newFIFO(t)
	w := startWorker(t, ownOwner("dies"), `exec 9>$FIFO; echo ready >&9; exec sleep 1000`, f)
	if err := w.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.dead()
}

// TestNothingOutlivesAKilledWorker checks that the guard ends the group, and what left the group with its mark, also
// where no next worker is started. A worker without an owner marks its processes for the guard, too.
func TestNothingOutlivesAKilledWorker(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("this machine has no setsid")
	}
	for name, owner := range map[string]string{"with an owner": ownOwner("guarded"), "without": ""} {
		t.Run(name, func(t *testing.T) {
			f, other := newFIFO(t), newFIFO(t)
			w := startWorker(t, owner, `trap "" TERM HUP; exec 9>$FIFO
				sleep 1000 & setsid sh -c 'sleep 1000 & wait' & echo ready >&9; wait`, f)
			startWorker(t, owner, `exec 9>$FIFO; echo ready >&9; exec sleep 1000`, other)
			if err := syscall.Kill(w.Process.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			f.dead()
			if !other.alive() {
				t.Error("the process of another worker of the same owner was ended")
			}
		})
	}
}

// TestGuardComesBack checks that the next process starts another guard, which knows what runs already, after somebody
// ended the first one.
func TestGuardComesBack(t *testing.T) {
	g := newGuard("", slog.New(slog.DiscardHandler))
	left := exec.Command("sleep", "1000")
	left.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	g.started(g.begin(), left.Process.Pid)
	_ = g.shell.cmd.Process.Kill()
	_ = g.shell.cmd.Wait()
	g.shell.asked = time.Time{} // a moment passes
	g.begin()
	_ = g.shell.in.Close() // the system does the same when this process dies
	_ = left.Wait()
	if sig := left.ProcessState.Sys().(syscall.WaitStatus).Signal(); sig != syscall.SIGKILL {
		t.Errorf("it ended by %v", sig)
	}
	_ = g.shell.cmd.Wait()
}

// TestGuardFindsWhatWasBeingStarted checks that a process is found by its mark if the worker dies before it knows the
// group of the process.
func TestGuardFindsWhatWasBeingStarted(t *testing.T) {
	g := newGuard("", slog.New(slog.DiscardHandler))
	left := exec.Command("sleep", "1000")
	left.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	left.Env = []string{"PAWL_OWNER=" + g.mark}
	g.end(g.begin())
	g.begin()
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	_ = g.shell.in.Close() // the system does the same when this process dies
	_ = left.Wait()
	if sig := left.ProcessState.Sys().(syscall.WaitStatus).Signal(); sig != syscall.SIGKILL {
		t.Errorf("it ended by %v", sig)
	}
	_ = g.shell.cmd.Wait()
}

// TestGuardManyAtOnce checks that the guard's file grows with the attempts that run at the same time. The guard reads
// all of it.
func TestGuardManyAtOnce(t *testing.T) {
	g := newGuard("", slog.New(slog.DiscardHandler))
	var left []*exec.Cmd
	lines := 3 * os.Getpagesize() / guardLine
	for i := range lines {
		line := g.begin()
		if i%(lines/3) != 10 { // one process lives in each part of the file
			g.end(line)
			g.free = nil // as if it went on
			continue
		}
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		left = append(left, cmd)
		g.started(line, cmd.Process.Pid)
	}
	_ = g.shell.in.Close() // the system does the same when this process dies
	for _, cmd := range left {
		_ = cmd.Wait()
		if sig := cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); sig != syscall.SIGKILL {
			t.Errorf("it ended by %v", sig)
		}
	}
	_ = g.shell.cmd.Wait()
}

// TestGuardIgnoresAHalfWrittenLine checks a file whose worker died between making it longer and writing the new line.
// The number of a group is in the file as a whole or not at all, since it takes one word of memory.
func TestGuardIgnoresAHalfWrittenLine(t *testing.T) {
	const largest = "4194304" // the largest number of a process on Linux
	text := guardText(largest)
	if string(text[:]) != largest+"\n" || unsafe.Sizeof(text) != unsafe.Sizeof(uint64(0)) {
		t.Errorf("the line is %q", text)
	}
	table, err := newGuardTable()
	if err != nil {
		t.Fatal(err)
	}
	defer table.close()
	for line, text := range []string{"-", "12", largest} {
		if err := table.write(line, guardText(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.file.Truncate(4 * guardLine); err != nil {
		t.Fatal(err)
	}
	read := exec.Command("/bin/sh", "-c", `while read -r line; do echo "$line"; done`)
	read.Stdin = table.file
	if out, err := read.Output(); err != nil || string(out) != "-\n12\n"+largest+"\n" {
		t.Errorf("the guard reads %q, %v", out, err)
	}
}

// TestGuardSparesWhatEnded checks that the guard ends nothing when a worker ends regularly.
func TestGuardSparesWhatEnded(t *testing.T) {
	g := newGuard("", slog.New(slog.DiscardHandler))
	left := exec.Command("sleep", "1000")
	left.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	left.Env = []string{"PAWL_OWNER=" + g.mark}
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	g.end(g.begin()) // another process that could not be started
	line := g.begin()
	g.started(line, left.Process.Pid)
	g.end(line)
	g.rest()
	if err := left.Process.Signal(syscall.Signal(0)); err != nil {
		t.Error("it was ended")
	}
	_ = left.Process.Kill()
	_ = left.Wait()
}

// TestProcessThatAnotherWaitedFor checks that the end of a process is not known if another part of the program took it.
// That is a failure, which may be tried again.
func TestProcessThatAnotherWaitedFor(t *testing.T) {
	p := &process{}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.id = cmd.Process.Pid
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	p.wait(cmd)
	f := p.failure(newCapture(nil, nil, nil), false)
	if f == nil || f.Kind != policy.KindError || !strings.Contains(f.Message, "another part of this program") {
		t.Errorf("the failure is %v", f)
	}
}

// TestProcessOutlivesThreads checks that a process survives the end of the thread that started it. The kernel sends the
// death signal then, and the Go runtime ends threads.
func TestProcessOutlivesThreads(t *testing.T) {
	f := newFIFO(t)
	gate := newFIFO(t)
	r := begin(t, ExecConfig{}, shellTask(t, `exec 9>$FIFO; echo ready >&9; read word <$GATE; echo "$word"`,
		map[string]any{"env": map[string]string{"FIFO": f.path, "GATE": gate.path}}))
	f.line()
	var threads sync.WaitGroup
	for range 50 {
		threads.Go(runtime.LockOSThread) // when a goroutine ends while locked to a thread, the thread ends too
	}
	threads.Wait()
	w, err := os.OpenFile(gate.path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if res := r.wait(t); res.Failure != nil || workertest.Field(t, res.Output, "stdout") != `"go\n"` {
		t.Errorf("%s, %v", res.Output, res.Failure)
	}
}

func TestKillLeftovers(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("this machine has no setsid")
	}
	// Three children: one in the group, one that left it, and one that left it, has no mark, and is in the group of a
	// process that has the mark.
	t.Setenv("WORKER_TEST_GUARD", "none") // as if it had been killed with the worker
	f, other := newFIFO(t), newFIFO(t)
	w := startWorker(t, ownOwner("leaves"), `exec 9>$FIFO
		sleep 1000 & setsid sleep 1000 & setsid sh -c 'env -u PAWL_OWNER sleep 1000 & wait' &
		echo ready >&9; wait`, f)
	alike := startWorker(t, ownOwner("leaves")+" too", `exec 9>$FIFO; echo ready >&9; exec sleep 1000`, other)
	if err := w.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = w.Wait()

	killed, err := KillLeftovers(ownOwner("leaves"))
	if err != nil {
		t.Fatal(err)
	}
	f.dead()
	if len(killed) < 3 {
		t.Errorf("killed %+v", killed)
	}
	for _, l := range killed {
		if l.PID == 0 || l.Run == "" || l.Step != "build" || l.Attempt != 2 {
			t.Errorf("killed %+v", l)
		}
	}
	if !other.alive() {
		t.Error("a process of an owner with a similar name was killed")
	}
	if killed, err := KillLeftovers(ownOwner("leaves")); err != nil || len(killed) != 0 {
		t.Errorf("a second time: %+v, %v", killed, err)
	}
	if _, err := KillLeftovers(""); err == nil {
		t.Error("an empty owner was accepted")
	}
	_ = alike
}

// TestKillLeftoversOfADeadLeader checks that processes without a mark are killed with the marked ones of their group
// when the leader of the group is dead and nobody has waited for it, as in a container whose first process does not.
func TestKillLeftoversOfADeadLeader(t *testing.T) {
	f := newFIFO(t)
	owner := ownOwner("leader")
	leader := exec.Command("sh", "-c", `exec 9>$FIFO; sleep 1000 & env -u PAWL_OWNER sleep 1000 & echo ready >&9`)
	leader.Env = append(os.Environ(), "FIFO="+f.path, "PAWL_OWNER="+owner)
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-leader.Process.Pid, syscall.SIGKILL) // fails if the test succeeded
		_ = leader.Wait()
	})
	f.line()
	for s, ok := statusOf(leader.Process.Pid); ok && s.state != 'Z'; s, ok = statusOf(leader.Process.Pid) {
		pause()
	}
	if _, err := KillLeftovers(owner); err != nil {
		t.Fatal(err)
	}
	f.dead()
}

// TestKillLeftoversSparesItself checks that a worker may run as a step of another worker with the same owner.
func TestKillLeftoversSparesItself(t *testing.T) {
	if os.Getenv("WORKER_TEST_INNER") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKillLeftoversSparesItself$", "-test.v")
		cmd.Env = append(os.Environ(), "WORKER_TEST_INNER=1", "PAWL_OWNER="+ownOwner("spared"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if killed, err := KillLeftovers(os.Getenv("PAWL_OWNER")); err != nil || len(killed) != 0 {
		t.Errorf("killed %+v, %v", killed, err)
	}
}

// TestStopsWhatLeftTheGroup checks that processes in groups of their own are found by the attempt's marks. timeout(1)
// starts such processes.
func TestStopsWhatLeftTheGroup(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("this machine has no setsid")
	}
	f := newFIFO(t)
	r := begin(t, ExecConfig{}, shellTask(t,
		`exec 9>$FIFO; setsid sh -c 'trap "" TERM; echo ready >&9; sleep 1000' & wait`,
		map[string]any{"grace": 100, "env": map[string]string{"FIFO": f.path}}))
	f.line()
	r.stop()
	if res := r.wait(t); res.Abandoned {
		t.Error("it was abandoned")
	}
	f.dead()
}

// TestLeavesAloneWhatWasMeantToStay checks that a process that is detached as documented keeps running.
func TestLeavesAloneWhatWasMeantToStay(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("this machine has no setsid")
	}
	f := newFIFO(t)
	res := begin(t, ExecConfig{Owner: ownOwner("stay")},
		shellTask(t, `exec 9>$FIFO; setsid sleep 1000 >/dev/null 2>&1 & echo ready >$FIFO; echo $!`,
			map[string]any{"env": map[string]string{"FIFO": f.path}})).wait(t)
	f.line()
	if res.Failure != nil || !f.alive() {
		t.Errorf("%s, %v, alive: %v", res.Output, res.Failure, f.alive())
	}
	if killed, err := KillLeftovers(ownOwner("stay")); err != nil || len(killed) != 1 {
		t.Errorf("killed %+v, %v", killed, err)
	}
	f.dead()
}
