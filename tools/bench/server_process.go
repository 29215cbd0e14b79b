package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// servedFlows are the flows that a server of a row can start by name.
var servedFlows = map[string]string{
	"onestep": oneStepFlow, "sleep": sleepFlow,
	"remote": `pawl: 1
name: remote
steps:
  - {name: only, task: {queue: bench, type: Nothing}}
`,
}

// servingProcess is a server in a separate process.
type servingProcess struct {
	cmd  *exec.Cmd
	out  io.Reader
	url  string
	said *bytes.Buffer // the output on the standard error
}

// apiClient is a client of such a server.
type apiClient struct{ *httpapi.Client }

// withServer calls a function with a server on the row's database, with more in its environment, and with a client of
// it, and ends both.
func (s *session) withServer(
	ctx context.Context, measure func(*servingProcess, *apiClient) error, env ...string,
) (err error) {
	srv, err := s.serve(ctx, env...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.close()) }()
	c, err := srv.client()
	if err != nil {
		return err
	}
	defer c.Close()
	return measure(srv, c)
}

// command returns the command that is to serve. It is built once a row, and go build has it from the row before.
func (s *session) command(ctx context.Context) (string, error) {
	if s.Pawl != "" {
		return s.Pawl, nil
	}
	path := filepath.Join(s.dir, "pawl")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path, "github.com/pawl-dev/pawl/cmd/pawl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the command, or name one with --pawl: %w\n%s", err, out)
	}
	return path, nil
}

// serve starts a server on the row's database, with the flows of all rows, and additions to its environment.
func (s *session) serve(ctx context.Context, env ...string) (*servingProcess, error) {
	flows := filepath.Join(s.dir, "flows")
	if err := os.MkdirAll(flows, 0o700); err != nil {
		return nil, err
	}
	for name, source := range servedFlows {
		if err := os.WriteFile(filepath.Join(flows, name+".yaml"), []byte(source), 0o600); err != nil {
			return nil, err
		}
	}
	pawl, err := s.command(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, pawl, "dev", "--listen", "127.0.0.1:0",
		"--database", "sqlite:"+filepath.Join(s.dir, databaseFile), flows)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = append(append(os.Environ(), "XDG_CONFIG_HOME="+filepath.Join(s.dir, "config")), env...)
	said := &bytes.Buffer{}
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	srv := &servingProcess{cmd: cmd, out: lines, said: said}
	if words := strings.Fields(first); err == nil && len(words) > 1 && words[0] == "serving" {
		srv.url = words[1]
		return srv, nil
	}
	return nil, errors.Join(fmt.Errorf("the server says %q", first), srv.close())
}

// client returns a client with its own connections.
func (srv *servingProcess) client() (*apiClient, error) {
	c, err := httpapi.New(srv.url)
	if err != nil {
		return nil, err
	}
	c.Through(&http.Transport{
		MaxIdleConnsPerHost: inFlight, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
	})
	return &apiClient{c}, nil
}

// processor returns the processor time that the server has used.
func (srv *servingProcess) processor() time.Duration { return processorOf(srv.cmd.Process.Pid) }

// resident returns the bytes of memory that the server holds.
func (srv *servingProcess) resident() int64 { return residentOf(fmt.Sprint(srv.cmd.Process.Pid)) }

// close ends the server as its users do.
func (srv *servingProcess) close() error {
	_ = srv.cmd.Process.Signal(os.Interrupt) // it may have ended on its own
	_, _ = io.Copy(io.Discard, srv.out)      // the rest of its output must be read before Wait closes the pipe
	if err := srv.cmd.Wait(); err != nil {
		return fmt.Errorf("the server ends with %w: %s", err, srv.said)
	}
	return nil
}
