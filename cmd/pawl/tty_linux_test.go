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
	grew chan struct{}

	mu   sync.Mutex
	text bytes.Buffer
}

// openTerminal starts the command on a terminal of 80 columns and 24 lines.
func openTerminal(t *testing.T, dir string, args ...string) *terminal {
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
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	pts, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	defer pts.Close()
	term := &terminal{t: t, cmd: command(t, dir, args...), ptm: ptm, grew: make(chan struct{}, 1)}
	term.cmd.Env = append(term.cmd.Env, "TERM=xterm-256color", "NO_COLOR=")
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = pts, pts, pts
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go term.read()
	t.Cleanup(func() {
		_ = term.cmd.Process.Kill() // it has ended where all is well
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

func (c *terminal) press(keys string) {
	c.t.Helper()
	if _, err := c.ptm.WriteString(keys); err != nil {
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

const ctrlC = "\x03"

func TestTerminal(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(term *terminal)
		status int
		end    string
	}{
		{"cancel", func(term *terminal) { term.press(ctrlC); term.see(`c cancel the run`); term.press("c") }, exitCancelled, `waits .* cancelled in`},
		{"leave", func(term *terminal) { term.press(ctrlC); term.see(`l leave it`); term.press("l") }, exitCancelled, `left run .* \(waits\) as it is`},
		{"second", func(term *terminal) { term.press(ctrlC); term.see(`g go on`); term.press(ctrlC) }, exitCancelled, `left run`},
		{"go on", func(term *terminal) {
			term.press(ctrlC)
			term.see(`g go on`)
			term.press("g")
			term.see(`(?s)g go on.*\x1b\[J`) // the question has gone
			term.press(ctrlC)
			term.see(`(?s)g go on.*\x1b\[J.*g go on`)
			term.press("c")
		}, exitCancelled, `cancelled in`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "flow.yaml", strings.TrimPrefix(waiting, "\n"))
			term := openTerminal(t, dir, "run", "flow.yaml")
			term.see(`waits for event go`)
			c.answer(term)
			text := term.see(c.end)
			if got := term.status(); got != c.status {
				t.Errorf("exit status %d, want %d", got, c.status)
			}
			if !strings.Contains(text, "\x1b[?25h") {
				t.Error("the cursor stays hidden")
			}
		})
	}
}

// TestNoColor: where colours are not wanted, the live view moves the cursor and nothing else.
func TestNoColor(t *testing.T) {
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
			term.see(`waits for event go`)
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
