package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/caller"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/secret"
)

// AttemptVariables are the variables that describe an attempt to its process. A worker may itself run as a step; it
// does not pass on its own ones.
var AttemptVariables = []string{
	"PAWL_RUN_ID", "PAWL_STEP", "PAWL_ATTEMPT", "PAWL_IDEMPOTENCY_KEY", "PAWL_DEADLINE_MS", "PAWL_LAST_HEARTBEAT",
	"PAWL_LAST_HEARTBEAT_FILE", "PAWL_OUTPUT", "PAWL_OWNER", "PAWL_HEADERS",
}

// traceHeaders are the headers of a run that its processes get as variables in the form that OpenTelemetry knows:
// TRACEPARENT, TRACESTATE. They replace the worker's own, and a step's env may replace them.
var traceHeaders = []string{"traceparent", "tracestate"}

// defaultPath is the PATH for a process that has none.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// IdempotencyKey returns a key that is the same for all attempts of a step: the run's id and the step's number in it. A
// service that gets the key twice knows that the second request is a retry.
func IdempotencyKey(tok core.Token) string {
	return tok.Run.String() + "-" + strconv.FormatUint(uint64(tok.Step), 10)
}

// environment returns the environment of the process: that of the worker as far as steps get it, then
// the step's, then the attempt's. Of two entries with one name the later one counts; the other is left out.
func (e *Exec) environment(ctx context.Context, t core.Task, p *ExecPayload, results *resultFile) []string {
	headers := t.Headers.Map()
	chosen := e.chosen(t, p, headers)
	inherited := e.inheritedBy(p.by)
	env := make([]string, 0, len(inherited)+len(chosen)+len(AttemptVariables))
	for _, entry := range inherited {
		if !named(chosen, entry) {
			env = append(env, entry)
		}
	}
	for i, entry := range chosen {
		if !named(chosen[i+1:], entry) {
			env = append(env, entry)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Defaults)) {
		entry := name + "=" + p.Defaults[name]
		if own := slices.Contains(AttemptVariables, variable(entry)); !own && !named(env, entry) {
			env = append(env, entry)
		}
	}
	env = marksOf(e.guard.mark, t).append(env)
	return describe(ctx, env, t, places{results.path, results.details}, headers)
}

// places are the paths of the files that a process shares with its worker, as the process knows them.
type places struct{ output, details string }

// describe adds the variables that describe an attempt, beside its marks.
func describe(
	ctx context.Context, env []string, t core.Task, at places, headers map[string]string,
) []string {
	env = append(env, "PAWL_IDEMPOTENCY_KEY="+IdempotencyKey(t.Token), "PAWL_OUTPUT="+at.output)
	if left, ok := Remaining(ctx); ok {
		env = append(env, "PAWL_DEADLINE_MS="+strconv.FormatInt(left.Milliseconds(), 10))
	}
	if len(headers) > 0 {
		if text, err := json.Marshal(headers); err == nil {
			env = append(env, "PAWL_HEADERS="+string(text))
		}
	}
	switch {
	case at.details != "":
		env = append(env, "PAWL_LAST_HEARTBEAT_FILE="+at.details)
	case t.Details != nil:
		env = append(env, "PAWL_LAST_HEARTBEAT="+string(t.Details))
	}
	return env
}

// chosen returns the entries of the run and of the step, none of which describes the attempt.
func (e *Exec) chosen(t core.Task, p *ExecPayload, headers map[string]string) []string {
	var chosen []string
	for _, name := range traceHeaders {
		value := headers[name]
		if name == "traceparent" && e.cfg.Trace != nil {
			value = e.cfg.Trace(t)
		}
		if value != "" {
			chosen = append(chosen, strings.ToUpper(name)+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if entry := name + "=" + p.Env[name]; !slices.Contains(AttemptVariables, variable(entry)) {
			chosen = append(chosen, entry)
		}
	}
	return chosen
}

// variable returns the name in an entry of an environment.
func variable(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}

// named reports whether one of the entries has the name of that one.
func named(entries []string, one string) bool {
	return len(entries) > 0 && slices.ContainsFunc(entries, func(e string) bool { return variable(e) == variable(one) })
}

// inherited is what processes get of the worker's environment. It is put together when that changes.
type inherited struct{ last atomic.Pointer[[2][]string] } // all of it, and what is passed on

func (i *inherited) get(secrets *secret.Store) []string {
	all := os.Environ()
	if last := i.last.Load(); last != nil && slices.Equal(last[0], all) {
		return last[1]
	}
	passed := slices.DeleteFunc(slices.Clone(all), func(entry string) bool { return !secrets.Passes(variable(entry)) })
	i.last.Store(&[2][]string{all, passed})
	return passed
}

// inheritedBy returns what processes get of the environment of whoever an attempt is made for.
func (e *Exec) inheritedBy(by *caller.Caller) []string {
	if own := by.Inherited(); own != nil {
		return own
	}
	return e.inherited.get(e.cfg.Secrets)
}

// marks are the variables that identify the processes of an attempt. The zero value marks nothing.
type marks struct{ owner, run, step, attempt string }

func marksOf(owner string, t core.Task) marks {
	return marks{owner: owner, run: t.Token.Run.String(), step: t.StepName, attempt: strconv.Itoa(t.Token.Attempt)}
}

func (m marks) entries() []string { return m.append(nil) }

func (m marks) append(entries []string) []string {
	for _, e := range [][2]string{
		{"PAWL_OWNER=", m.owner}, {"PAWL_RUN_ID=", m.run}, {"PAWL_STEP=", m.step}, {"PAWL_ATTEMPT=", m.attempt},
	} {
		if e[1] != "" {
			entries = append(entries, e[0]+e[1])
		}
	}
	return entries
}

// shell returns the program and the arguments for a script. See prepareLine for Windows.
func shell(p *ExecPayload) []string {
	switch {
	case len(p.Interpreter) > 0:
		return append(slices.Clip(p.Interpreter), p.Shell)
	case runtime.GOOS == "windows":
		return []string{"cmd", "/S", "/C", p.Shell}
	case HasPipefail():
		return []string{"/bin/sh", "-eo", "pipefail", "-c", p.Shell}
	default:
		return []string{"/bin/sh", "-e", "-c", p.Shell}
	}
}

// HasPipefail reports whether a pipe of /bin/sh on this machine can fail with any of its programs. The first call finds
// out.
var HasPipefail = sync.OnceValue(func() bool {
	return runtime.GOOS != "windows" && exec.Command("/bin/sh", "-c", "set -o pipefail").Run() == nil
})

// lookUp finds a program by name, as a process with this folder and environment would.
func (e *Exec) lookUp(name, dir string, env []string) (string, error) {
	if runtime.GOOS == "windows" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("command %q was not found; install it, or give its full path (%w)", name, err)
		}
		return path, nil
	}
	if strings.Contains(name, "/") {
		full := name
		if !filepath.IsAbs(name) {
			full = filepath.Join(dir, name)
		}
		return name, executable(name, full)
	}
	path := defaultPath
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value
		}
	}
	if full, ok := e.programs.get(name, path); ok {
		return full, nil
	}
	var unusable error
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			continue // its meaning would depend on the folder in which the worker runs
		}
		full := filepath.Join(folder, name)
		info, err := os.Stat(full)
		if err != nil {
			continue
		}
		if err = mayExecute(name, full, info); err == nil {
			e.programs.put(name, path, full)
			return full, nil
		}
		unusable = err
	}
	if unusable != nil {
		return "", unusable
	}
	return "", fmt.Errorf("command %q was not found in PATH (%s); install it, correct the name, or give its full path",
		name, Shorten(path, 300))
}

func executable(name, full string) error {
	info, err := os.Stat(full)
	if err != nil {
		return fmt.Errorf("command %q does not exist (%s); correct the path, or dir, where a relative path starts",
			name, full)
	}
	return mayExecute(name, full, info)
}

func mayExecute(name, full string, info os.FileInfo) error {
	switch {
	case info.IsDir():
		return fmt.Errorf("command %q is a folder (%s); name a program in it", name, full)
	case info.Mode()&0o111 == 0:
		return fmt.Errorf("command %q is not executable; run chmod +x %s", name, full)
	}
	return nil
}
