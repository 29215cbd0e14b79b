package worker

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/caller"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// ContainerPayload specifies the container in which a process runs.
type ContainerPayload struct {
	Image string `json:"image"`
	// Args are the arguments of the image's own program, which runs where the payload has no command and no shell.
	Args []string `json:"args,omitempty"`
	// Volumes are the mounts: source:target or source:target:options.
	Volumes []string `json:"volumes,omitempty"`
	User    string   `json:"user,omitempty"`
	Network string   `json:"network,omitempty"`
	// Workspace is the folder that the container sees as /workspace. Default: none.
	Workspace string `json:"workspace,omitempty"`
	// Pull is missing, which is the default, always or never.
	Pull string `json:"pull,omitempty"`
	// Init specifies whether a small init is the first process. Default: it is.
	Init *bool `json:"init,omitempty"`
	// Options are further arguments of the program's run.
	Options []string `json:"options,omitempty"`
	// Inherit are variables that the container gets from the worker's environment.
	Inherit []string `json:"inherit,omitempty"`
}

// The paths in a container that Pawl gives it.
const (
	workspacePath = "/workspace"
	outputPath    = "/pawl/output"
	heartbeatPath = "/pawl/heartbeat"
)

// The labels of a container.
const (
	labelOwner   = "pawl.owner"   // the owner of the worker, see ExecConfig
	labelProcess = "pawl.process" // the process that made it
	labelName    = "pawl.container"
	labelRun     = "pawl.run"
	labelStep    = "pawl.step"
	labelAttempt = "pawl.attempt"
)

// texts returns the texts that may contain placeholders.
func (p *ContainerPayload) texts() []*string {
	if p == nil {
		return nil
	}
	texts := []*string{&p.Image, &p.User, &p.Network, &p.Workspace}
	for _, list := range [][]string{p.Args, p.Volumes, p.Options} {
		for i := range list {
			texts = append(texts, &list[i])
		}
	}
	return texts
}

func (p *ContainerPayload) check() error {
	switch {
	case p.Image == "":
		return errors.New("the container has no image")
	case strings.HasPrefix(p.Image, "-"):
		return fmt.Errorf("%q is not the name of an image", Shorten(p.Image, 60))
	case p.Pull != "" && !slices.Contains([]string{"missing", "always", "never"}, p.Pull):
		return fmt.Errorf("pull is missing, always or never, not %q", p.Pull)
	}
	for _, v := range p.Volumes {
		if v == "" || strings.HasPrefix(v, "-") || !strings.Contains(v, ":") {
			return fmt.Errorf("%q is not a volume; write SOURCE:TARGET", Shorten(v, 60))
		}
	}
	return nil
}

// box is the container of one attempt.
type box struct {
	client *containerClient
	name   string
	files  []string // files of the attempt's start
	id     string   // the file that has the id of the container since it was made
	shell  bool     // a script runs in it
}

// boxName returns the name of an attempt's container.
func boxName(tok core.Token) string {
	return "pawl-" + tok.Run.String() + "-" + strconv.FormatUint(uint64(tok.Step), 10) + "-" + strconv.Itoa(tok.Attempt)
}

// remove removes the files that were made for its start.
func (b *box) remove() {
	if b == nil {
		return
	}
	for _, f := range b.files {
		_ = os.Remove(f)
	}
}

// containerCommand prepares the program that makes the container and stays until it has ended.
func (e *Exec) containerCommand(
	ctx context.Context, t core.Task, p *ExecPayload, results *resultFile,
) (*exec.Cmd, *box, *policy.Failure) {
	client, err := e.containers.open(ctx)
	if err != nil {
		var none *noProgramError
		if errors.As(err, &none) {
			return nil, nil, notFound(err.Error())
		}
		return nil, nil, containerFailure("%v", err)
	}
	e.guard.guardContainers(client.program, e.inherited.get(e.cfg.Secrets))
	b := &box{client: client, name: boxName(t.Token), id: results.path + ".container", shell: p.Shell != ""}
	b.files = append(b.files, b.id)
	b.remove() // an attempt of this number that did not begin may have left one
	if err := results.share(); err != nil {
		return nil, nil, containerFailure("no file for $PAWL_OUTPUT: %v", err)
	}
	own, names := e.containerEnvironment(ctx, t, p, results)
	env, file, err := splitEnvironment(e.clientEnvironment(t, p.by), own)
	if err != nil {
		return nil, nil, &policy.Failure{Kind: policy.KindFailed, Type: "invalid_payload", Message: err.Error()}
	}
	args := []string{client.program, "run", "--rm", "--sig-proxy=false", "--name", b.name, "--cidfile", b.id}
	args = append(args, e.containers.labels(t, b.name)...)
	for _, name := range names {
		if !slices.Contains(variables(file), name) {
			args = append(args, "--env", name)
		}
	}
	if len(file) > 0 {
		list := results.path + ".env"
		if err := os.WriteFile(list, []byte(strings.Join(file, "\n")+"\n"), 0o600); err != nil {
			return nil, nil, containerFailure("no file for its environment: %v", err)
		}
		b.files = append(b.files, list)
		args = append(args, "--env-file", list)
	}
	args = append(append(args, p.Container.arguments(p, results)...), p.Container.Image)
	if len(p.Command) > 1 {
		args = append(args, p.Command[1:]...)
	}
	if p.Shell != "" {
		args = append(args, containerShell(p)[1:]...)
	}
	args = append(args, p.Container.Args...)
	cmd := &exec.Cmd{Path: client.program, Args: args, Env: env}
	prepare(cmd)
	return cmd, b, nil
}

// arguments returns the arguments that the payload chooses.
func (p *ContainerPayload) arguments(of *ExecPayload, results *resultFile) []string {
	var args []string
	option := func(name, value string) {
		if value != "" {
			args = append(args, name, value)
		}
	}
	if p.Init == nil || *p.Init {
		args = append(args, "--init")
	}
	if of.Stdin != "" {
		args = append(args, "--interactive")
	}
	option("--pull", p.Pull)
	option("--mount", mount(results.path, outputPath))
	if results.details != "" {
		option("--mount", mount(results.details, heartbeatPath)+",readonly")
	}
	if p.Workspace != "" {
		folder, err := filepath.Abs(p.Workspace)
		if err != nil {
			folder = p.Workspace
		}
		option("--mount", mount(folder, workspacePath))
	}
	switch {
	case path.IsAbs(of.Dir):
		option("--workdir", of.Dir)
	case p.Workspace != "" || of.Dir != "":
		option("--workdir", path.Join(workspacePath, of.Dir))
	}
	option("--user", p.User)
	option("--network", p.Network)
	for _, v := range p.Volumes {
		option("--volume", v)
	}
	args = append(args, p.Options...)
	switch {
	case of.Shell != "":
		option("--entrypoint", containerShell(of)[0])
	case len(of.Command) > 0:
		option("--entrypoint", of.Command[0])
	}
	return args
}

// mount describes a folder or a file of this machine in a container.
func mount(source, target string) string {
	var out strings.Builder
	w := csv.NewWriter(&out) // a path may contain a comma
	_ = w.Write([]string{"type=bind", "source=" + source, "target=" + target})
	w.Flush()
	return strings.TrimSuffix(out.String(), "\n")
}

// containerScript runs a script with pipefail, if the shell of the image knows it.
const containerScript = `(set -o pipefail) 2>/dev/null && set -o pipefail; eval "$1"`

// containerShell returns the program and the arguments for a script in a container.
func containerShell(p *ExecPayload) []string {
	if len(p.Interpreter) > 0 {
		return append(slices.Clip(p.Interpreter), p.Shell)
	}
	return []string{"/bin/sh", "-e", "-c", containerScript, "sh", p.Shell}
}

// containerEnvironment returns the variables of the process in the container, and their names.
func (e *Exec) containerEnvironment(
	ctx context.Context, t core.Task, p *ExecPayload, results *resultFile,
) (env, names []string) {
	headers := t.Headers.Map()
	env = e.chosen(t, p, headers)
	inherited := e.inheritedBy(p.by)
	for _, name := range slices.Sorted(maps.Keys(p.Defaults)) {
		if entry := name + "=" + p.Defaults[name]; !named(env, entry) && !slices.Contains(AttemptVariables, name) {
			env = append(env, given(inherited, entry))
		}
	}
	for _, name := range p.Container.Inherit {
		if entry := given(inherited, name); entry != name && !named(env, entry) {
			env = append(env, entry)
		}
	}
	m := marksOf("", t)
	env = m.append(env)
	at := places{output: outputPath}
	if results.details != "" {
		at.details = heartbeatPath
	}
	env = describe(ctx, env, t, at, headers)
	return env, variables(env)
}

// given returns the entry of that name in an environment, or otherwise the given one.
func given(environment []string, entry string) string {
	for _, one := range environment {
		if variable(one) == variable(entry) {
			return one
		}
	}
	return entry
}

func variables(entries []string) []string {
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, variable(entry))
	}
	return names
}

// clientEnvironment returns the environment of the program that makes the container.
func (e *Exec) clientEnvironment(t core.Task, by *caller.Caller) []string {
	return marksOf(e.guard.mark, t).append(slices.Clone(e.inheritedBy(by)))
}

// splitEnvironment returns the environment of the client with the container's variables in it: the client passes on
// those that its arguments name. The arguments of a process can be read by everybody on the machine, its environment
// cannot. Variables that the client itself heeds go into a file.
func splitEnvironment(client, own []string) (env, file []string, err error) {
	env = slices.DeleteFunc(client, func(entry string) bool {
		return named(own, entry) && !heeded(variable(entry))
	})
	for _, entry := range own {
		if !heeded(variable(entry)) {
			env = append(env, entry)
			continue
		}
		if strings.ContainsAny(entry, "\n\r") || !utf8.ValidString(entry) {
			return nil, nil, fmt.Errorf("the variable %s of a container cannot have line breaks; give it another name",
				variable(entry))
		}
		file = append(file, entry)
	}
	return env, file, nil
}

// heeded reports whether docker or podman themselves heed a variable.
func heeded(name string) bool {
	name = strings.ToUpper(name)
	switch name {
	case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "TZ", "HOSTNAME", "PAWL_OWNER", "GODEBUG",
		"GOGC", "GOMEMLIMIT", "GOMAXPROCS":
		return true
	}
	own := []string{
		"DOCKER_", "CONTAINER_", "CONTAINERS_", "REGISTRY_", "STORAGE_", "BUILDAH_", "PODMAN_", "XDG_", "LD_", "SSH_",
		"LC_", "DBUS_", "SSL_", "NETAVARK_", "SYSTEMD_",
	}
	return strings.HasSuffix(name, "_PROXY") ||
		slices.ContainsFunc(own, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// share makes the file $PAWL_OUTPUT, which the container's user, whoever it is, may write. Others on this machine do
// not reach the folder that it is in.
func (r *resultFile) share() error {
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o666), f.Close())
}

func containerFailure(format string, args ...any) *policy.Failure {
	return &policy.Failure{Kind: policy.KindError, Type: "container", Message: fmt.Sprintf(format, args...)}
}
