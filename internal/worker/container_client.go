package worker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// containerProcess is a mark of this process for the containers that it makes.
var containerProcess = func() string {
	mark := make([]byte, 8)
	_, _ = rand.Read(mark) // never fails
	return hex.EncodeToString(mark)
}()

// containerPatience bounds how long the container program may take to answer.
const containerPatience = 20 * time.Second

// containers makes the containers of an executor.
type containers struct {
	program string // as configured; empty: docker or podman, whichever is there
	owner   string
	marker  string // a file that exists if there were containers; empty if there is none

	mu     sync.Mutex
	client *containerClient // set when what an earlier process left has been ended
}

func newContainers(cfg ExecConfig) *containers {
	return &containers{program: cfg.Containers, owner: cfg.Owner, marker: markerOf(cfg)}
}

// markerOf returns the path of a file that is there if an engine with this owner has made containers: most never do,
// and the next one need not ask for them.
func markerOf(cfg ExecConfig) string {
	switch {
	case cfg.Owner == "":
		return ""
	case cfg.LogDir != "":
		return filepath.Join(cfg.LogDir, ".containers")
	}
	return filepath.Join(os.TempDir(), "pawl-"+cfg.Owner+".containers")
}

// open returns the program for containers. The first call ends what an earlier process has left: the program may not
// have answered when this one began.
func (c *containers) open(ctx context.Context) (*containerClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	client, err := findContainerClient(c.program)
	if err != nil {
		return nil, err
	}
	if c.marker != "" {
		if err := endContainers(ctx, client, c.owner, c.marker); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(filepath.Dir(c.marker), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(c.marker, []byte("Pawl has made containers.\n"), 0o600); err != nil {
			return nil, err
		}
	}
	c.client = client
	return client, nil
}

// labels returns the arguments that label the container of an attempt.
func (c *containers) labels(t core.Task, name string) []string {
	var args []string
	for _, l := range [][2]string{
		{labelOwner, c.owner},
		{labelProcess, containerProcess},
		{labelName, name},
		{labelRun, t.Token.Run.String()},
		{labelStep, t.StepName},
		{labelAttempt, strconv.Itoa(t.Token.Attempt)},
	} {
		if l[1] != "" {
			args = append(args, "--label", l[0]+"="+l[1])
		}
	}
	return args
}

// EndContainers ends the containers that an earlier engine with this owner has left. It returns an error if the
// container program does not answer: then the first step that runs in a container tries again before it begins.
func EndContainers(ctx context.Context, cfg ExecConfig) error {
	marker := markerOf(cfg)
	if marker == "" {
		return nil
	}
	if _, err := os.Stat(marker); err != nil {
		return nil //nolint:nilerr // there were none
	}
	client, err := findContainerClient(cfg.Containers)
	if err != nil {
		return err
	}
	return endContainers(ctx, client, cfg.Owner, marker)
}

func endContainers(ctx context.Context, client *containerClient, owner, marker string) error {
	if _, err := os.Stat(marker); err != nil {
		return nil //nolint:nilerr // there were none
	}
	left, err := client.labelled(ctx, labelOwner+"="+owner)
	if err != nil {
		return err
	}
	own, err := client.labelled(ctx, labelOwner+"="+owner, labelProcess+"="+containerProcess)
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, id := range own {
		kept[id] = true
	}
	for _, id := range left {
		if !kept[id] {
			client.end(ctx, id)
		}
	}
	if left, err = client.labelled(ctx, labelOwner+"="+owner); err != nil {
		return err
	}
	for _, id := range left {
		if !kept[id] {
			return fmt.Errorf("the container %s of an earlier process was killed and is still there; "+
				"remove it with %s rm -f %s before its work is repeated", id, client.program, id)
		}
	}
	return os.Remove(marker)
}

// containerClient is docker or podman.
type containerClient struct{ program string }

// noProgramError is the error without a program for containers.
type noProgramError struct{ msg string }

func (e *noProgramError) Error() string { return e.msg }

// findContainerClient finds the program of that name or path; "": docker or podman.
func findContainerClient(program string) (*containerClient, error) {
	names := []string{program}
	if program == "" {
		names = []string{"docker", "podman"}
	}
	for _, name := range names {
		if full, err := exec.LookPath(name); err == nil {
			if full, err = filepath.Abs(full); err == nil {
				return &containerClient{full}, nil
			}
		}
	}
	if program != "" {
		return nil, &noProgramError{fmt.Sprintf("%q, which --container-program names for containers, was not found; "+
			"install it, or correct the name", program)}
	}
	return nil, &noProgramError{"there is no program for containers: neither docker nor podman is in the PATH of the " +
		"worker; install one of them, or name another one with --container-program"}
}

// call runs the program and returns what it prints.
func (c *containerClient) call(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, containerPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.WaitDelay = time.Second
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(problems.String()); text != "" {
			err = errors.New(Shorten(ValidText([]byte(text)), 500))
		}
		return "", fmt.Errorf("%s %s: %w", filepath.Base(c.program), args[0], err)
	}
	return out.String(), nil
}

// labelled returns the ids of the containers with these labels, also of those that do not run.
func (c *containerClient) labelled(ctx context.Context, labels ...string) ([]string, error) {
	args := []string{"ps", "--all", "--quiet", "--no-trunc"}
	for _, l := range labels {
		args = append(args, "--filter", "label="+l)
	}
	out, err := c.call(ctx, args...)
	return strings.Fields(out), err
}

// end kills a container and removes it. It may have been removed meanwhile, or be removed automatically.
func (c *containerClient) end(ctx context.Context, name string) {
	_, _ = c.call(ctx, "kill", name)
	_, _ = c.call(ctx, "rm", "--force", name)
}
