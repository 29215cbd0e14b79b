package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pawl that runs on a terminal of its own.
type terminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	ptm  *os.File
	was  unix.Termios // its modes before the command
	grew chan struct{}

	mu   sync.Mutex
	text bytes.Buffer
}

// openTerminal starts the command on a terminal of 80 columns and 24 lines.
func openTerminal(t *testing.T, dir string, args ...string) *terminal {
	t.Helper()
	return onTerminal(t, command(t, dir, args...))
}

// onTerminal starts a command on a terminal of 80 columns and 24 lines.
func onTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	ptm, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	fd := int(ptm.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	pts, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	term := &terminal{t: t, cmd: cmd, ptm: ptm, grew: make(chan struct{}, 1)}
	term.resize(80)
	term.was = term.modes()
	term.cmd.Env = append(term.cmd.Env, "TERM=xterm-256color", "NO_COLOR=")
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = pts, pts, pts
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go term.read()
	t.Cleanup(func() {
		_ = term.cmd.Process.Kill() // it has ended where all is well
		pts.Close()                 // not before: a terminal that nobody has open forgets its modes
		ptm.Close()
	})
	return term
}

func (c *terminal) read() {
	buf := make([]byte, 4096)
	for {
		n, err := c.ptm.Read(buf)
		c.mu.Lock()
		c.text.Write(buf[:n])
		c.mu.Unlock()
		select {
		case c.grew <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// see waits until the terminal was sent something that matches.
func (c *terminal) see(pattern string) string {
	c.t.Helper()
	re := regexp.MustCompile(pattern)
	timeout := time.After(patience)
	for {
		c.mu.Lock()
		text := c.text.String()
		c.mu.Unlock()
		if re.MatchString(text) {
			return text
		}
		select {
		case <-c.grew:
		case <-timeout:
			c.t.Fatalf("never seen: %s\n%q", pattern, text)
		}
	}
}

func (c *terminal) resize(width uint16) {
	c.t.Helper()
	if err := unix.IoctlSetWinsize(int(c.ptm.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *terminal) modes() unix.Termios {
	c.t.Helper()
	modes, err := unix.IoctlGetTermios(int(c.ptm.Fd()), unix.TCGETS)
	if err != nil {
		c.t.Fatal(err)
	}
	return *modes
}

// restored checks that the terminal is as it was before the command, which has ended.
func (c *terminal) restored() {
	c.t.Helper()
	if is := c.modes(); is != c.was {
		c.t.Errorf("the terminal's modes were %+v and are %+v", c.was, is)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if text := c.text.String(); strings.LastIndex(text, "\x1b[?25h") < strings.LastIndex(text, "\x1b[?25l") {
		c.t.Error("the cursor stays hidden")
	}
}

func (c *terminal) press(keys string) {
	c.t.Helper()
	if _, err := c.ptm.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

func (c *terminal) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// signalChild signals what runs in the terminal's foreground, under the command that is a shell.
func (c *terminal) signalChild(s syscall.Signal) {
	c.t.Helper()
	group, err := unix.IoctlGetInt(int(c.ptm.Fd()), unix.TIOCGPGRP)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := syscall.Kill(group, s); err != nil {
		c.t.Fatal(err)
	}
}

func (c *terminal) status() int {
	_ = c.cmd.Wait() // the status tells
	return c.cmd.ProcessState.ExitCode()
}

const waiting = `
pawl: 1
name: waits
steps:
  - name: work
    exec: {shell: '[ "$PAWL_ATTEMPT" -ge 2 ]'}
    retry: fixed(2, 150ms)
  - name: approval
    needs: [work]
    wait: {event: go}
    timeout: 1h
`

const (
	ctrlC         = "\x03"
	ctrlZ         = "\x1a"
	ctrlBackslash = "\x1c"
	arrowUp       = "\x1b[A"
)

// TestTerminal drives the real command on a terminal. However it ends, the terminal is as it was.
func TestTerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer func(term *terminal)
		status int
		end    string
	}{
		{"cancel", func(term *terminal) {
			term.press(ctrlC)
			term.see(`c cancel the run`)
			term.press("c")
		}, exitCancelled, `waits .* cancelled in`},
		{"leave", func(term *terminal) {
			term.press(ctrlC)
			term.see(`l leave it`)
			term.press("l")
		}, exitCancelled, `left run .* \(waits\) as it is`},
		{"second", func(term *terminal) {
			term.press(ctrlC)
			term.see(`g go on`)
			term.press(ctrlC)
		}, exitCancelled, `left run`},
		{"quit", func(term *terminal) { term.press(ctrlBackslash) }, exitCancelled, `left run`},
		{"go on", func(term *terminal) {
			term.press(ctrlC)
			term.see(`g go on`)
			term.press("g")
			term.see(`(?s)g go on.*\x1b\[J`) // the question has gone
			term.press(ctrlC)
			term.see(`(?s)g go on.*\x1b\[J.*g go on`)
			term.press("c")
		}, exitCancelled, `cancelled in`},
		{"escape goes on", func(term *terminal) {
			term.press(ctrlC)
			term.see(`g go on`)
			term.press("\x1b")
			term.see(`(?s)g go on.*\x1b\[J`)
			term.press(ctrlC)
			term.see(`(?s)g go on.*\x1b\[J.*g go on`)
			term.press("l")
		}, exitCancelled, `left run`},
		{"other keys are no answers", func(term *terminal) {
			term.press("cly\r" + arrowUp) // nothing is asked yet
			term.press(ctrlC)
			term.see(`g go on`)
			term.press(arrowUp + "x1 \t") // begins like an Escape, which goes on
			term.press(ctrlC)
		}, exitCancelled, `left run`},
		{"terminated", func(term *terminal) { term.signal(syscall.SIGTERM) }, exitCancelled, `left run`},
		{"terminated while asked", func(term *terminal) {
			term.press(ctrlC)
			term.see(`g go on`)
			term.signal(syscall.SIGTERM)
		}, exitCancelled, `left run`},
		{"interrupted from outside", func(term *terminal) {
			term.signal(syscall.SIGINT)
			term.see(`g go on`)
			term.press("c")
		}, exitCancelled, `cancelled in`},
		{"narrow", func(term *terminal) {
			term.press(ctrlC)
			term.see(`l leave it for later`)
			term.resize(50)
			term.see(`c cancel   l leave   g go on`)
			term.press("l")
		}, exitCancelled, `left run`},
		{"nobody could continue it", func(term *terminal) {
			term.press(ctrlZ) // the command leads its session, so that the system does not stop it
			term.press(ctrlC)
			term.see(`g go on`)
			term.press("l")
		}, exitCancelled, `left run`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "flow.yaml", strings.TrimPrefix(waiting, "\n"))
			term := openTerminal(t, dir, "run", "flow.yaml")
			term.see(`waits for the event go`)
			if term.modes().Lflag&unix.ECHO != 0 {
				t.Error("typed keys are shown, and disturb the view")
			}
			c.answer(term)
			term.see(c.end)
			if got := term.status(); got != c.status {
				t.Errorf("exit status %d, want %d", got, c.status)
			}
			term.restored()
		})
	}
}

// TestRunEndsWhileAsked checks that the question disappears with the run.
func TestRunEndsWhileAsked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "flow.yaml", "pawl: 1\nname: ends\nsteps:\n  - name: work\n    exec: "+block+"\n")
	term := openTerminal(t, dir, "run", "flow.yaml")
	term.see(`runs for `)
	term.press(ctrlC)
	term.see(`g go on`)
	write(t, dir, "go", "")
	term.see(`(?s)g go on.*\x1b\[J.*ends .* succeeded in`)
	if got := term.status(); got != exitOK {
		t.Errorf("exit status %d, want %d", got, exitOK)
	}
	term.restored()
}

// TestWatchOnTerminal checks that a person who only watches a run is not asked.
func TestWatchOnTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "flow.yaml", strings.TrimPrefix(waiting, "\n"))
	if out, err := command(t, dir, "run", "flow.yaml", "--id", "w", "--detach").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	term := openTerminal(t, dir, "run", "watch", "w")
	term.see(`nothing carries this run`)
	term.press(ctrlC)
	if text := term.see(`goes on in the process that executes it`); strings.Contains(text, "Stop?") {
		t.Errorf("it asks: %q", text)
	}
	if got := term.status(); got != exitCancelled {
		t.Errorf("exit status %d, want %d", got, exitCancelled)
	}
	term.restored()
}

// TestPanicOnTerminal checks that a panic ends the process and leaves a terminal that shows typed text.
func TestPanicOnTerminal(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"main", "another"} {
		t.Run(where, func(t *testing.T) {
			path, err := exec.LookPath("panic")
			if err != nil {
				t.Fatal(err)
			}
			term := onTerminal(t, exec.Command(path, where))
			term.see(`(?s)drawn.*panic: planted`)
			if got := term.status(); got != 2 {
				t.Errorf("exit status %d, want that of a panic", got)
			}
			term.restored()
		})
	}
}

// TestSuspend stops the command with Ctrl-Z, and by a signal from outside, under a shell that controls its jobs and
// sets the terminal's modes for itself meanwhile. Keys work again afterwards.
func TestSuspend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		stop func(term *terminal)
	}{
		{"key", func(term *terminal) { term.press(ctrlZ) }},
		{"signal", func(term *terminal) { term.signalChild(syscall.SIGTSTP) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "flow.yaml", strings.TrimPrefix(waiting, "\n"))
			pawl := command(t, dir, "run", "flow.yaml")
			script := `set -m; modes=$(stty -g); "$0" "$@"; stty "$modes"
				echo stopped; read line; echo "read $line"; fg; exit $?`
			shell := exec.Command("sh", append([]string{"-c", script, pawl.Path}, pawl.Args[1:]...)...)
			shell.Dir, shell.Env = pawl.Dir, pawl.Env
			term := onTerminal(t, shell)
			term.see(`waits for the event go`)
			c.stop(term)
			term.see(`stopped`)
			term.press("line\n")
			term.see(`(?s)read line.*waits for the event go`)
			term.press(ctrlC)
			term.see(`g go on`)
			term.press("c")
			term.see(`cancelled in`)
			if got := term.status(); got != exitCancelled {
				t.Errorf("exit status %d, want %d", got, exitCancelled)
			}
			term.restored()
		})
	}
}

// TestNoColor checks that the live view without colours moves the cursor and does nothing else.
func TestNoColor(t *testing.T) {
	t.Parallel()
	colour := regexp.MustCompile(`\x1b\[[0-9;]*m`)
	for _, c := range []struct {
		name    string
		args    []string
		colours bool
	}{
		{"coloured", nil, true},
		{"plain", []string{"--no-color"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "flow.yaml", strings.TrimPrefix(waiting, "\n"))
			term := openTerminal(t, dir, append([]string{"run", "flow.yaml"}, c.args...)...)
			term.see(`waits for the event go`)
			term.press(ctrlC)
			term.see(`c cancel the run`)
			term.press("c")
			if text := term.see(`cancelled in`); colour.MatchString(text) != c.colours {
				t.Errorf("colours: %v, want %v\n%q", !c.colours, c.colours, text)
			}
			term.status()
		})
	}
}
