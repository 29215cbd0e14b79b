//go:build unix

// Command docker stands in for docker in tests: it takes the arguments that Pawl uses, and keeps the state of its
// containers in the folder $STANDIN_DIR. A container is a process of this machine, in a separate session: it goes on
// when the client dies, as with docker. It has the variables that it was given and no others. What is mounted is found
// at its own place. Its command inside plays what runs in a container of a real program.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	signals "os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// container is the stand-in's state of one.
type container struct {
	ID, Name    string
	Labels, Env []string
	Args        []string
	Mounts      []string // pairs of target and source
	Dir, User   string
	Image       string
	IDFile      string
	PID         int
	Stdin       bool
	Call        []string // the arguments of the client
}

func main() {
	if len(os.Args) < 2 {
		fail(125, "no command")
	}
	if os.Getenv("STANDIN_DOWN") != "" || exists(filepath.Join(dir(), "down")) {
		fail(125, "Cannot connect to the Docker daemon. Is the docker daemon running?")
	}
	args := os.Args[2:]
	switch os.Args[1] {
	case "inside":
		inside(args)
	case "run":
		run(args)
	case "supervise":
		supervise(args[0])
	case "ps":
		list(args)
	case "stop":
		stop(args)
	case "kill":
		c := find(args[len(args)-1])
		if c.PID == 0 {
			fail(1, "container %s is not running", c.Name)
		}
		signal(c, syscall.SIGKILL)
	case "rm":
		c := find(args[len(args)-1])
		signal(c, syscall.SIGKILL)
		_ = os.Remove(file(c.Name))
	default:
		fail(125, "%q is not a command", os.Args[1])
	}
}

// inside prints what a process in a container sees, and waits to be asked to stop if an argument asks for that.
func inside(args []string) {
	asked := make(chan os.Signal, 1)
	signals.Notify(asked, syscall.SIGTERM)
	folder, err := os.Getwd()
	if err != nil {
		fail(1, "%v", err)
	}
	fmt.Printf("A=%s HOME=%s dir=%s uid=%d\n", os.Getenv("A"), os.Getenv("HOME"), folder, os.Getuid())
	if results := os.Getenv("PAWL_OUTPUT"); results != "" {
		if err := os.WriteFile(results, []byte("result=made\n"), 0o600); err != nil {
			fail(1, "%v", err)
		}
		if err := os.WriteFile("made", []byte("made"), 0o600); err != nil {
			fail(1, "%v", err)
		}
	}
	if len(args) > 0 && args[0] != "" {
		<-asked
		fmt.Println("asked to stop")
	}
}

func dir() string { return os.Getenv("STANDIN_DIR") }

func file(name string) string { return filepath.Join(dir(), name+".json") }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func fail(code int, format string, args ...any) {
	prefix := "Error response from daemon: "
	if os.Args[1] == "run" {
		prefix = "docker: " + prefix
	}
	fmt.Fprintf(os.Stderr, prefix+format+"\n\nRun 'docker --help' for more information\n", args...)
	os.Exit(code)
}

func (c *container) save() {
	text, err := json.Marshal(c)
	if err == nil {
		err = os.WriteFile(file(c.Name)+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(file(c.Name)+".new", file(c.Name))
	}
	if err != nil {
		fail(125, "%v", err)
	}
}

func read(path string) (*container, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &container{}
	return c, json.Unmarshal(text, c)
}

func find(name string) *container {
	for _, c := range all() {
		if c.Name == name || c.ID == name {
			return c
		}
	}
	fail(1, "No such container: %s", name)
	return nil
}

func all() []*container {
	paths, _ := filepath.Glob(filepath.Join(dir(), "*.json"))
	var out []*container
	for _, path := range paths {
		if c, err := read(path); err == nil {
			out = append(out, c)
		}
	}
	return out
}

// parse reads the arguments of run. One that it does not know is an error, as with docker.
func parse(args []string) *container {
	c := &container{ID: strconv.FormatInt(time.Now().UnixNano(), 16), Call: args}
	entrypoint := ""
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name := args[0]
		args = args[1:]
		switch name {
		case "--rm", "--init", "--sig-proxy=false":
			continue
		case "--interactive":
			c.Stdin = true
			continue
		}
		if len(args) == 0 {
			fail(125, "flag needs an argument: %s", name)
		}
		value := args[0]
		args = args[1:]
		switch name {
		case "--name":
			c.Name = value
		case "--label":
			c.Labels = append(c.Labels, value)
		case "--env":
			if v, ok := os.LookupEnv(value); ok {
				c.Env = append(c.Env, value+"="+v)
			}
		case "--env-file":
			text, err := os.ReadFile(value)
			if err != nil {
				fail(125, "%v", err)
			}
			c.Env = append(c.Env, strings.Split(strings.TrimSpace(string(text)), "\n")...)
		case "--mount":
			c.mount(value)
		case "--volume":
			parts := strings.Split(value, ":")
			c.Mounts = append(c.Mounts, parts[1], parts[0])
		case "--workdir":
			c.Dir = value
		case "--user":
			c.User = value
		case "--entrypoint":
			entrypoint = value
		case "--cidfile":
			c.IDFile = value
		case "--network", "--pull", "--memory":
		default:
			fail(125, "unknown flag: %s", name)
		}
	}
	c.Image, c.Args = args[0], args[1:]
	if entrypoint != "" {
		c.Args = append([]string{entrypoint}, c.Args...)
	} else {
		c.Args = append([]string{"/bin/echo", "own program:"}, c.Args...)
	}
	return c
}

func (c *container) mount(text string) {
	var source, target string
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "source":
			source = value
		case "target":
			target = value
		}
	}
	if !exists(source) {
		fail(125, "invalid mount config: bind source path does not exist: %s", source)
	}
	c.Mounts = append(c.Mounts, target, source)
}

// here returns a path of the container on this machine.
func (c *container) here(path string) string {
	for i := 0; i < len(c.Mounts); i += 2 {
		if rest, ok := strings.CutPrefix(path, c.Mounts[i]); ok && (rest == "" || rest[0] == '/') {
			return c.Mounts[i+1] + rest
		}
	}
	return path
}

// run makes a container and waits for it.
func run(args []string) {
	c := parse(args)
	switch {
	case c.Image == "missing":
		fail(125, "pull access denied for missing")
	case exists(c.IDFile):
		fail(125, "container ID file found")
	case exists(file(c.Name)):
		fail(125, "Conflict. The container name %q is already in use", c.Name)
	case c.Image == "slow": // its image is pulled for long
		for !exists(filepath.Join(dir(), "pulled")) {
			time.Sleep(10 * time.Millisecond)
		}
	}
	if _, err := exec.LookPath(c.Args[0]); err != nil {
		fail(127, "exec: %q: executable file not found in $PATH", c.Args[0])
	}
	c.save()
	if err := os.WriteFile(c.IDFile, []byte(c.ID), 0o600); err != nil && c.IDFile != "" {
		fail(125, "%v", err)
	}
	self, err := os.Executable()
	if err != nil {
		fail(125, "%v", err)
	}
	cmd := exec.Command(self, "supervise", c.Name)
	cmd.Env = []string{"STANDIN_DIR=" + dir(), "PATH=/usr/local/bin:/usr/bin:/bin"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	os.Exit(codeOf(cmd.Run()))
}

func codeOf(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			return 128 + int(s.Signal())
		}
		return exit.ExitCode()
	}
	if err != nil {
		fail(125, "%v", err)
	}
	return 0
}

// supervise runs the process of a container, and removes the container when it has ended.
func supervise(name string) {
	c := find(name)
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	for _, entry := range c.Env {
		key, value, _ := strings.Cut(entry, "=")
		cmd.Env = append(cmd.Env, key+"="+c.here(value))
	}
	cmd.Env = append(cmd.Env, "PATH=/usr/local/bin:/usr/bin:/bin", "STANDIN_USER="+c.User)
	if cmd.Dir = c.here(c.Dir); c.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if c.Stdin {
		cmd.Stdin = os.Stdin
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		fail(125, "%v", err)
	}
	c.PID = cmd.Process.Pid
	if exists(file(name)) {
		c.save()
	} else { // it was removed meanwhile
		signal(c, syscall.SIGKILL)
	}
	code := codeOf(cmd.Wait())
	_ = os.Remove(file(name))
	os.Exit(code)
}

func list(args []string) {
	var wanted []string
	for i, arg := range args {
		if arg == "--filter" {
			label, _ := strings.CutPrefix(args[i+1], "label=")
			wanted = append(wanted, label)
		}
	}
	for _, c := range all() {
		if !slices.ContainsFunc(wanted, func(label string) bool { return !slices.Contains(c.Labels, label) }) {
			fmt.Println(c.ID)
		}
	}
}

// signal signals what runs in a container.
func signal(c *container, s syscall.Signal) {
	if c.PID != 0 {
		_ = syscall.Kill(-c.PID, s)
	}
}

func stop(args []string) {
	c := find(args[len(args)-1])
	seconds, err := strconv.Atoi(args[1])
	if err != nil || args[0] != "-t" {
		fail(125, "bad flags %q", args)
	}
	_ = os.WriteFile(filepath.Join(dir(), "stopped"), []byte(c.Name), 0o600)
	signal(c, syscall.SIGTERM)
	for over := time.Now().Add(time.Duration(seconds) * time.Second); exists(file(c.Name)); {
		if time.Now().After(over) {
			signal(c, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}
