// Command temporalgate tries workers and clients of Temporal's Go SDK on Pawl. It starts a server of its own on a
// SQLite file or on the database that is given, and kills it in between if it is told to:
//
//	go run . -pawl ../../pawl
//	go run . -pawl ../../pawl -kill 4s -n 200
//	go run . -pawl ../../pawl -kill 5s -for 5m -database postgres://…
//
// It is a separate module, so that the SDK is not a dependency of Pawl.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"google.golang.org/grpc"
)

func main() {
	pawl := flag.String("pawl", "pawl", "the command that serves")
	kill := flag.Duration("kill", 0, "how often the server is killed (default: never)")
	many := flag.Int("n", 1, "how many runs of each scene, at least")
	long := flag.Duration("for", 0, "how long runs are started, at least")
	database := flag.String("database", "", "the database (default: a new SQLite file)")
	atOnce := flag.Int("c", 32, "how many of them at once")
	cache := flag.Int("cache", 1000, "workflows that the worker keeps in memory")
	flag.Parse()
	if err := gate(*pawl, *database, *kill, load{*many, *atOnce, *long}, *cache); err != nil {
		fmt.Fprintln(os.Stderr, "temporalgate:", err)
		os.Exit(1)
	}
}

// load is how many runs of each scene there are at least, how many run at once, and how long runs are started.
type load struct {
	many, atOnce int
	long         time.Duration
}

// gate runs all scenes and prints their results.
func gate(pawl, database string, kill time.Duration, l load, cache int) error {
	folder, err := os.MkdirTemp("", "temporalgate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	s, err := begin(pawl, database, folder)
	if err != nil {
		return err
	}
	defer s.end()
	quiet := sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{
		Level: slog.LevelError + 1, // activities are to fail
	})))
	worker.SetStickyWorkflowCacheSize(cache)
	seen := newWitness()
	c, err := client.Dial(client.Options{
		HostPort: s.address, Logger: quiet, ConnectionOptions: client.ConnectionOptions{
			DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(seen.watch)},
		},
	})
	if err != nil {
		return err
	}
	defer c.Close()
	// An activity's heartbeats come several times within its limit, so that one may find no server.
	w := worker.New(c, queue, worker.Options{MaxHeartbeatThrottleInterval: 2 * time.Second})
	register(w)
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	answers := func() bool {
		_, err := c.WorkflowService().GetSystemInfo(context.Background(), &workflowservice.GetSystemInfoRequest{})
		return err == nil
	}
	failed := play(c, l, s.killEvery(kill, answers))
	if failed += seen.report(); failed > 0 {
		return fmt.Errorf("%d went otherwise", failed)
	}
	return nil
}

// play runs each scene some times, and returns how many runs went otherwise than expected. Once all were started it
// calls calm, after which the server stays.
func play(c client.Client, l load, calm func()) int {
	began := time.Now()
	var all sync.WaitGroup
	var failed atomic.Int64
	room := make(chan struct{}, l.atOnce)
	total := 0
	for i := 0; i < l.many || time.Since(began) < l.long; i++ {
		for _, one := range scenes {
			total++
			room <- struct{}{}
			all.Go(func() {
				defer func() { <-room }()
				ctx, cancel := context.WithTimeout(context.Background(), l.long+5*time.Minute)
				defer cancel()
				id := fmt.Sprintf("%s-%d-%d", one.name, began.UnixNano(), i)
				if err := one.run(ctx, c, id); err != nil {
					failed.Add(1)
					fmt.Printf("FAIL %s: %v\n", id, err)
				}
			})
		}
	}
	calm()
	all.Wait()
	took := time.Since(began).Round(time.Millisecond)
	fmt.Printf("%d of %d as expected, in %s\n", total-int(failed.Load()), total, took)
	return int(failed.Load())
}

// server is a server that can be killed and started again.
type server struct {
	pawl, database, address string

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
}

// begin starts a server, on a new file in the folder if no database is given.
func begin(pawl, database, folder string) (*server, error) {
	if database == "" {
		database = "sqlite:" + filepath.Join(folder, "gate.db")
	}
	s := &server{pawl: pawl, database: database, address: freeAddress()}
	return s, s.start()
}

// freeAddress returns a loopback address that nobody uses. Its port is below those that systems give to connections:
// one of them could take it while the server is away, or reach itself there.
func freeAddress() string {
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close() // it was not used
			return address
		}
	}
}

// start starts the server, and waits until it listens. It tries again, because its database may still be that of the
// server that was killed.
func (s *server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 20 {
		s.cmd = exec.Command(s.pawl, "dev", "--listen", "127.0.0.1:0", "--temporal", s.address,
			"--database", s.database)
		s.cmd.Stderr = os.Stderr
		if err := s.cmd.Start(); err != nil {
			return err
		}
		cmd, ended := s.cmd, make(chan struct{})
		s.ended = ended
		go func() {
			defer close(ended)
			_ = cmd.Wait() // it is killed, or says itself why it ends
		}()
		if s.listens() {
			return nil
		}
		time.Sleep(time.Second)
	}
	return errors.New("the server does not listen")
}

// restart starts the server again if it has ended on its own, as it does where its database is held.
func (s *server) restart() {
	select {
	case <-s.ended:
		if err := s.start(); err != nil {
			fmt.Fprintln(os.Stderr, "temporalgate:", err)
		}
	default:
	}
}

// listens waits until the server listens. It returns false if the server has ended.
func (s *server) listens() bool {
	for {
		conn, err := net.Dial("tcp", s.address)
		if err == nil {
			return conn.Close() == nil
		}
		select {
		case <-s.ended:
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stop ends the server with a signal.
func (s *server) stop(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.cmd.Process.Signal(sig) // it may have ended
	<-s.ended
}

// end stops the server.
func (s *server) end() { s.stop(syscall.SIGTERM) }

// killEvery kills the server again and again, some time after it has answered the client, and starts it again. It
// returns what stops that.
func (s *server) killEvery(every time.Duration, answers func() bool) (stop func()) {
	if every <= 0 {
		return func() {}
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			for !answers() { // a client that was refused waits before it connects again
				time.Sleep(100 * time.Millisecond)
				s.restart()
			}
			select {
			case <-over:
				return
			case <-time.After(every):
			}
			s.stop(syscall.SIGKILL)
			if err := s.start(); err != nil {
				fmt.Fprintln(os.Stderr, "temporalgate:", err)
				return
			}
		}
	}()
	return func() { close(over); <-ended }
}
