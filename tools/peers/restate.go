package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/ingress"
	endpoint "github.com/restatedev/sdk-go/server"
)

// restateEngine is Restate's server in a separate process, which has the steps executed by this process.
type restateEngine struct {
	cmd      *exec.Cmd
	said     bytes.Buffer
	services *http.Server
	client   *ingress.Client
	last     atomic.Int64
	attempts sync.Map // how many attempts have failed, by run and step
}

func openRestate(ctx context.Context, dir, _ string) (engine, error) {
	program, err := findRestate()
	if err != nil {
		return nil, err
	}
	e := &restateEngine{}
	ports, err := samePorts(dir, func() ([]int, error) { return freePorts(ctx, 4) })
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(ports[3]))
	if err != nil {
		return nil, err
	}
	if err := e.serve(listener); err != nil {
		return nil, err
	}
	err = e.run(program, dir, ports)
	if err == nil {
		err = e.register(ctx, ports[1], listener.Addr().String())
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	e.client = ingress.NewClient(fmt.Sprintf("http://127.0.0.1:%d", ports[2]),
		ingress.WithHttpClient(&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}))
	return e, nil
}

// findRestate finds the program that the npm package brings, in this folder or in the path.
func findRestate() (string, error) {
	found, err := filepath.Glob("node_modules/@restatedev/restate-server-*/bin/restate-server")
	if err != nil {
		return "", err
	}
	for _, name := range found {
		if exec.Command(name, "--version").Run() == nil { // those for other systems do not run
			return filepath.Abs(name)
		}
	}
	program, err := exec.LookPath("restate-server")
	if err != nil {
		return "", fmt.Errorf("%w: run npm install --no-save @restatedev/restate-server in tools/peers", err)
	}
	return program, nil
}

// samePorts finds free ports the first time, and returns the same ones when a peer is opened again in its folder: a run
// of Restate is bound to the address of its program, and Temporal waits for a server whose address is gone.
func samePorts(dir string, find func() ([]int, error)) (ports []int, err error) {
	file := filepath.Join(dir, "ports.json")
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &ports)
		return ports, err
	}
	if ports, err = find(); err != nil {
		return nil, err
	}
	if text, err = json.Marshal(ports); err != nil {
		return nil, err
	}
	return ports, os.WriteFile(file, text, 0o600)
}

// freePorts returns ports on which no process listens.
func freePorts(ctx context.Context, n int) (ports []int, err error) {
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // held until all are found, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// allFree reports whether no process listens on some ports in a row.
func allFree(ctx context.Context, first, n int) bool {
	for port := first; port < first+n; port++ {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			return false
		}
		defer func() { _ = l.Close() }() // held until all are tried
	}
	return true
}

// serve offers the steps to Restate's server.
func (e *restateEngine) serve(listener net.Listener) error {
	quiet := slog.NewTextHandler(io.Discard, nil)
	handler, err := endpoint.NewRestate().WithLogger(quiet, true).Bind(restate.NewService("Work").
		Handler("Run", restate.NewServiceHandler(e.work))).Handler()
	if err != nil {
		return err
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	e.services = &http.Server{Handler: handler, Protocols: &protocols, ReadHeaderTimeout: time.Minute}
	go func() { _ = e.services.Serve(listener) }() // ends when it is closed
	return nil
}

// run starts Restate's server as it is by default, which makes what it appends to its log durable.
func (e *restateEngine) run(program, dir string, ports []int) error {
	config := filepath.Join(dir, "restate.toml")
	text := fmt.Sprintf("listen-mode = \"tcp\"\nbind-ip = \"127.0.0.1\"\nbind-port = %d\ndisable-telemetry = true\n"+
		"[admin]\nbind-port = %d\n[ingress]\nbind-port = %d\n", ports[0], ports[1], ports[2])
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	e.cmd = exec.Command(program, "--no-logo", "--config-file", config, "--base-dir", dir)
	e.cmd.Env = append(os.Environ(), "RUST_LOG=error")
	e.cmd.Stdout, e.cmd.Stderr = &e.said, &e.said
	return e.cmd.Start()
}

// register tells Restate's server where the steps are, as soon as it answers.
func (e *restateEngine) register(ctx context.Context, admin int, services string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	body := []byte(`{"uri":"http://` + services + `"}`)
	url := "http://127.0.0.1:" + strconv.Itoa(admin) + "/deployments"
	var failed error
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(req)
		if err == nil {
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if answer.StatusCode < 300 || answer.StatusCode == http.StatusConflict {
				return nil
			}
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		failed = err
		rest(ctx, 50*time.Millisecond)
	}
	return fmt.Errorf("the server does not take the services: %w; it says: %s", failed, lastLine(e.said.String()))
}

// work executes the run.
func (e *restateEngine) work(ctx restate.Context, j job) (int, error) {
	if j.Due != 0 {
		if err := restate.Sleep(ctx, time.Until(time.UnixMicro(j.Due))); err != nil {
			return 0, err
		}
		awake(j.Due)
		return 0, nil
	}
	for i := range j.Steps {
		_, err := restate.Run(ctx, func(restate.RunContext) (int, error) {
			if j.Fails > 0 && e.failed(j.Run, i) <= j.Fails {
				return 0, errFails
			}
			return i, j.did(i)
		}, restate.WithName("step"), restate.WithMaxRetryAttempts(uint(j.attempts())),
			restate.WithInitialRetryInterval(pause), restate.WithRetryIntervalFactor(1))
		if err != nil {
			return 0, err
		}
	}
	return j.Steps, nil
}

// failed counts the attempts of a step, because Restate does not tell a step which attempt it is.
func (e *restateEngine) failed(run int64, step int) int {
	n, _ := e.attempts.LoadOrStore([2]int64{run, int64(step)}, new(atomic.Int64))
	return int(n.(*atomic.Int64).Add(1))
}

func (e *restateEngine) once(ctx context.Context, w work) error {
	_, err := ingress.Service[job, int](e.client, "Work", "Run").
		Request(ctx, job{Run: e.last.Add(1), Steps: w.steps, Fails: w.fails})
	return err
}

func (e *restateEngine) start(ctx context.Context, j job) error {
	_, err := ingress.ServiceSend[job](e.client, "Work", "Run").
		Send(ctx, j)
	return err
}

func (e *restateEngine) process() int { return e.cmd.Process.Pid }

// close kills the server at once: its data is no longer needed.
func (e *restateEngine) close() error {
	if e.cmd != nil && e.cmd.Process != nil {
		_ = e.cmd.Process.Kill()
		_ = e.cmd.Wait() // killed
	}
	return e.services.Close()
}
