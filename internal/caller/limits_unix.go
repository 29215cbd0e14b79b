//go:build unix

package caller

import (
	"os/exec"
	"strings"
	"sync"
)

// flags are the limits of resources that a process inherits and that every shell knows by the same letter: core, data,
// file size, open files, stack, processor time, address space.
var flags = []string{"c", "d", "f", "n", "s", "t", "v"}

// Limits returns what a process that this one starts has: its umask, and then its soft limits as /bin/sh writes them.
// A child is asked because the Go runtime has raised the limit of open files for this process alone. nil: there is no
// shell.
var Limits = sync.OnceValue(func() []string {
	script := "umask"
	for _, f := range flags {
		script += "; ulimit -S -" + f
	}
	out, err := exec.Command("/bin/sh", "-c", script).Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) != 1+len(flags) {
		return nil
	}
	return words
})

// Wrap returns the command line that runs another one with a caller's limits; the line itself if they are those of this
// process. A limit above the hard one of this process stays as it is.
func (c *Caller) Wrap(path string, args []string) (string, []string) {
	own := Limits()
	if c == nil || len(c.Limits) != 1+len(flags) || len(own) != len(c.Limits) {
		return path, args
	}
	script := ""
	for i, word := range c.Limits {
		switch {
		case word == own[i]:
		case i == 0:
			script += "umask " + word + "; "
		default:
			script += "ulimit -S -" + flags[i-1] + " " + word + " 2>/dev/null; "
		}
	}
	if script == "" {
		return path, args
	}
	line := []string{"/bin/sh", "-c", script + `exec "$@"`, args[0], path}
	return "/bin/sh", append(line, args[1:]...)
}
