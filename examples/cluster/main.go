// Command cluster starts a PostgreSQL server that is thrown away afterwards, and three pawl servers that share it. Then
// it starts a run each second, and prints who has which partitions. Kill a node and watch the work go on:
//
//	go run ./examples/cluster
//	kill -9 PID        of a node, in another terminal
//	Ctrl-C             ends all of it
//
// It needs PostgreSQL's programs on this machine, or the address of a database: -database postgres://…
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	database := flag.String("database", "", "a database to use in place of a throw-away server: postgres://…")
	pawl := flag.String("pawl", "", "the pawl command (default: built from the sources)")
	ends := flag.Duration("for", 0, "how long to go on (default: until Ctrl-C)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *ends > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *ends)
		defer cancel()
	}
	if err := run(ctx, *database, *pawl); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// run shows a cluster until ctx is done.
func run(ctx context.Context, database, pawl string) error {
	dir, err := os.MkdirTemp("", "pawl-cluster-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if pawl == "" {
		pawl = filepath.Join(dir, "pawl")
		if err := command(ctx, "", func(*exec.Cmd) {}, "go", "build", "-o", pawl, "./cmd/pawl"); err != nil {
			return err
		}
	}
	if database == "" {
		var stop func()
		if database, stop, err = startPostgres(ctx); err != nil {
			return err
		}
		defer stop()
	}
	s := &show{dir: dir, pawl: pawl, database: database}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	var nodes sync.WaitGroup
	for i := range 3 {
		if err := s.node(i, &nodes); err != nil {
			return errors.Join(err, s.stop(&nodes))
		}
	}
	s.watch(ctx)
	return s.stop(&nodes)
}

// show holds the running nodes and what was printed of them.
type show struct {
	dir, pawl, database, token string

	nodes     []*exec.Cmd
	addresses []string
	said      string // the status that was printed last
	started   int
}

// flow is a run of a few seconds.
const flow = `pawl: 1
name: trip
steps:
  - {name: leave, exec: sleep 1, retry: {maxAttempts: 20}}
  - {name: travel, needs: [leave], sleep: 2s}
  - {name: arrive, needs: [travel], exec: sleep 1, retry: {maxAttempts: 20}}
`

// prepare writes the flow and the secret of the cluster, and makes a token.
func (s *show) prepare(ctx context.Context) error {
	err := errors.Join(
		os.Mkdir(filepath.Join(s.dir, "flows"), 0o700),
		os.WriteFile(filepath.Join(s.dir, "flows", "trip.yaml"), []byte(flow), 0o600),
		os.WriteFile(filepath.Join(s.dir, "secret"), []byte(rand.Text()+rand.Text()), 0o600),
	)
	if err != nil {
		return err
	}
	out, err := s.command(ctx, "token", "create", "example", "--role", "admin").Output()
	s.token = strings.TrimSpace(string(out))
	return explained(err)
}

func (s *show) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.pawl, append(args, "--database", s.database)...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(s.dir, "state"))
	return cmd
}

// node starts a node. It gets no signal of the terminal: it is stopped in order.
func (s *show) node(i int, all *sync.WaitGroup) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	cmd := s.command(context.Background(), "server", filepath.Join(s.dir, "flows"), "--listen", address,
		"--cluster-listen", "127.0.0.1:0", "--cluster-secret-file", filepath.Join(s.dir, "secret"),
		"--log-level", "warn")
	cmd.Stderr = os.Stderr
	apart(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	s.nodes, s.addresses = append(s.nodes, cmd), append(s.addresses, "http://"+address)
	fmt.Printf("node %d is process %d: kill -9 %d\n", i+1, cmd.Process.Pid, cmd.Process.Pid)
	all.Go(func() { fmt.Printf("node %d has ended: %v\n", i+1, cmd.Wait()) })
	return nil
}

// watch starts a run each second, and prints changes.
func (s *show) watch(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if s.start(ctx) {
			s.started++
		}
		out, err := s.command(ctx, "cluster", "status").Output()
		if text := string(out); err == nil && text != s.said {
			s.said = text
			fmt.Printf("\n%s%d runs started\n", text, s.started)
		}
	}
}

// start starts a run through the first node that answers.
func (s *show) start(ctx context.Context) bool {
	body, err := json.Marshal(map[string]string{"workflow": "trip", "workflowId": fmt.Sprint("trip-", s.started)})
	if err != nil {
		return false
	}
	return slices.ContainsFunc(s.addresses, func(address string) bool {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/api/v1/runs", bytes.NewReader(body))
		if err != nil {
			return false
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+s.token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, res.Body) // so that the connection can be used again
		_ = res.Body.Close()
		return res.StatusCode < http.StatusBadRequest
	})
}

// stop ends the nodes in order, and prints what has happened to the runs.
func (s *show) stop(all *sync.WaitGroup) error {
	ctx := context.Background()
	for _, n := range s.nodes {
		_ = n.Process.Signal(os.Interrupt) // a killed node has ended
	}
	all.Wait()
	out, err := s.command(ctx, "run", "list", "--limit", "1000", "-o", "json").Output()
	if err != nil {
		return explained(err)
	}
	var runs []struct {
		Phase string `json:"phase"`
	}
	if err := json.Unmarshal(out, &runs); err != nil {
		return err
	}
	phases := map[string]int{}
	for _, r := range runs {
		phases[r.Phase]++
	}
	fmt.Printf("\n%d runs were started; in the database: %v\n", s.started, phases)
	return nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// explained adds the output of a command to its error.
func explained(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return err
}
