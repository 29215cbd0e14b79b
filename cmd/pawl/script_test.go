package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/certtest"
	"github.com/pawl-dev/pawl/internal/pawlbin"
)

// TestMain lets the test binary be the pawl command, so that scripts and the crash test run the real thing. Under the
// race detector each of these processes would sleep for a second before it leaves.
func TestMain(m *testing.M) {
	if err := os.Setenv("PAWL_DRAIN_WITHIN", "0s"); err != nil {
		panic(err)
	}
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	testscript.Main(leakChecked{m}, map[string]func(){"pawl": func() { os.Exit(run()) }, "panic": panicOnTerminal})
}

// leakChecked fails the tests if they leave goroutines behind.
type leakChecked struct{ *testing.M }

func (m leakChecked) Run() int {
	code := m.M.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// panicOnTerminal panics while it has a terminal open, on the goroutine that its argument names.
func panicOnTerminal() {
	terminal, err := screen.OpenTerminal(os.Stdin, os.Stdout, false)
	if err != nil {
		panic(err)
	}
	defer terminal.Close()
	if err := terminal.Paint([]screen.Line{screen.T("drawn")}); err != nil {
		panic(err)
	}
	if os.Args[1] == "main" {
		panic("planted")
	}
	go func() {
		defer terminal.RestoreOnPanic()
		panic("planted")
	}()
	select {}
}

// patience bounds the waiting for a condition.
const patience = time.Minute

// TestScript runs testdata/script: every verb, with real flows.
func TestScript(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
	if err != nil {
		t.Fatal(err)
	}
	docker := ""
	if runtime.GOOS != "windows" {
		docker = filepath.Join(pawlbin.Build(t, "./internal/worker/workertest/docker"), "docker")
	}
	server := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(server.Close) // the server outlives the scripts, which run in parallel
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Setenv("USER", "tester")
			env.Setenv("PAWL_DRAIN_WITHIN", "0s") // nobody sends callers to these servers
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("EXAMPLES", examples)
			env.Setenv("DOCKER", docker)
			env.Setenv("STANDIN_DIR", filepath.Join(env.WorkDir, "containers"))
			env.Setenv("NO_COLOR", "")
			env.Setenv("ECHO", server.URL)
			for _, name := range []string{"PORT", "SDKPORT"} {
				port, err := freePort()
				if err != nil {
					return err
				}
				env.Setenv(name, port)
			}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"until": until,
			"sdk":   sdk,
			"certificate": func(ts *testscript.TestScript, _ bool, _ []string) { // cert.pem and key.pem for localhost
				certtest.Write(t, ts.Getenv("WORK"), 1, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
			},
		},
		RequireUniqueNames: true,
	})
}

// freePort returns a port that nothing listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// echo answers with what it was asked, and with the status that the path names: /status/418.
func echo(w http.ResponseWriter, r *http.Request) {
	if status, err := strconv.Atoi(path.Base(r.URL.Path)); err == nil {
		w.WriteHeader(status)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // whoever asked has gone
	}
	headers := map[string]string{}
	for name := range r.Header {
		headers[name] = r.Header.Get(name)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"method": r.Method, "path": r.URL.Path, "query": r.URL.Query(), "headers": headers, "body": string(body),
	})
}

// until runs a command again and again until what it prints matches: until PATTERN COMMAND ARGS…
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until pattern command args...")
	}
	pattern := regexp.MustCompile("(?m)" + args[0])
	command, err := exec.LookPath(args[1])
	ts.Check(err)
	var out []byte
	for from := time.Now(); time.Since(from) < patience; {
		cmd := exec.Command(command, args[2:]...)
		cmd.Dir = ts.Getenv("WORK")
		cmd.Env = os.Environ()
		for _, name := range []string{"XDG_STATE_HOME", "XDG_CONFIG_HOME", "PAWL_DATABASE", "PAWL_SERVER"} {
			cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
		}
		var all bytes.Buffer
		cmd.Stdout, cmd.Stderr = &all, &all
		_ = cmd.Run() // it may well fail until the condition holds
		if out = all.Bytes(); pattern.Match(out) {
			return
		}
	}
	ts.Fatalf("%s never printed %s; at last:\n%s", args[1], args[0], out)
}
