package worker

import (
	"os/exec"
	"strings"
	"testing"
)

// TestExecWakesSuspended checks that a suspended process is woken, so that it ends itself as SIGTERM asks it to.
// Otherwise it would be killed at the end of the grace. One of them has no marks and is found by its group, one has
// left the group and is found by its marks.
func TestExecWakesSuspended(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("this machine has no setsid")
	}
	// The shell around it goes on after SIGTERM. If it ended, the system would wake what is suspended in its group.
	const around = "set +e; exec 9>$FIFO; trap : TERM; "
	const suspends = `sh -c 'trap "echo woken; exit 0" TERM
		(until grep -q "^State:.T" /proc/$$/status; do :; done; echo ready >&9) &
		kill -STOP $$; sleep 1000' & while kill -0 $! 2>&-; do wait; done`
	for name, before := range map[string]string{"in the group": `env -i PATH="$PATH" `, "outside of it": "setsid "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, dir := newFIFO(t), t.TempDir()
			task := shellTask(t, around+before+suspends,
				map[string]any{"grace": 10_000, "env": map[string]string{"FIFO": f.path}})
			task.StepName = name // the processes of an attempt are found by it
			r := begin(t, ExecConfig{LogDir: dir}, task)
			f.line()
			r.stop()
			if res := r.wait(t); res.Abandoned {
				t.Error("it was abandoned")
			}
			f.dead()
			if log := readFile(t, LogPath(dir, task.Token, task.StepName)); !strings.Contains(log, "woken\n") {
				t.Errorf("the log has %q", log)
			}
		})
	}
}
