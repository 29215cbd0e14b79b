// Command temporalgate tries workers and clients of Temporal's Go SDK on Pawl. It starts a server of its own on a
// SQLite file, and kills it in between if it is told to:
//
//	go run . -pawl ../../pawl
//	go run . -pawl ../../pawl -kill 4s -n 200
//
// It is a separate module, so that the SDK is not a dependency of Pawl.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
)

func main() {
	pawl := flag.String("pawl", "pawl", "the command that serves")
	kill := flag.Duration("kill", 0, "how often the server is killed (default: never)")
	many := flag.Int("n", 1, "how many runs of each scene")
	atOnce := flag.Int("c", 32, "how many of them at once")
	cache := flag.Int("cache", 1000, "workflows that the worker keeps in memory")
	flag.Parse()
	if err := gate(*pawl, *kill, *many, *atOnce, *cache); err != nil {
		fmt.Fprintln(os.Stderr, "temporalgate:", err)
		os.Exit(1)
	}
}

// gate runs all scenes and prints their results.
func gate(pawl string, kill time.Duration, many, atOnce, cache int) error {
	folder, err := os.MkdirTemp("", "temporalgate")
	if err != nil {
		return err
	}
	s, err := begin(pawl, folder)
	if err != nil {
		return err
	}
	defer s.end()
	quiet := sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{
		Level: slog.LevelError,
	})))
	worker.SetStickyWorkflowCacheSize(cache)
	c, err := client.Dial(client.Options{HostPort: s.address, Logger: quiet})
	if err != nil {
		return err
	}
	defer c.Close()
	w := worker.New(c, queue, worker.Options{})
	register(w)
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	killed := s.killEvery(kill)
	defer killed()
	return play(c, many, atOnce)
}

// play runs each scene some times, all at once.
func play(c client.Client, many, atOnce int) error {
	began := time.Now()
	var all sync.WaitGroup
	var failed atomic.Int64
	room := make(chan struct{}, atOnce)
	for i := range many {
		for _, one := range scenes {
			room <- struct{}{}
			all.Go(func() {
				defer func() { <-room }()
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
				defer cancel()
				id := fmt.Sprintf("%s-%d-%d", one.name, began.UnixNano(), i)
				if err := one.run(ctx, c, id); err != nil {
					failed.Add(1)
					fmt.Printf("FAIL %s: %v\n", id, err)
				}
			})
		}
	}
	all.Wait()
	total := many * len(scenes)
	took := time.Since(began).Round(time.Millisecond)
	fmt.Printf("%d of %d as expected, in %s\n", total-int(failed.Load()), total, took)
	if failed.Load() > 0 {
		return errors.New("some went otherwise")
	}
	return nil
}

// server is a server that can be killed and started again.
type server struct {
	pawl, folder, address string

	mu  sync.Mutex
	cmd *exec.Cmd
}

// begin starts a server on a new file.
func begin(pawl, folder string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{pawl: pawl, folder: folder, address: l.Addr().String()}
	if err := l.Close(); err != nil {
		return nil, err
	}
	return s, s.start()
}

// start starts the server, and waits until it listens.
func (s *server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = exec.Command(s.pawl, "dev", "--listen", "127.0.0.1:0", "--temporal", s.address,
		"--database", "sqlite:"+filepath.Join(s.folder, "gate.db"))
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return err
	}
	for range 600 {
		conn, err := net.Dial("tcp", s.address)
		if err == nil {
			return conn.Close()
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.New("the server does not listen")
}

// stop ends the server with a signal.
func (s *server) stop(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.cmd.Process.Signal(sig) // it may have ended
	_ = s.cmd.Wait()
}

// end stops the server and removes its file.
func (s *server) end() {
	s.stop(syscall.SIGTERM)
	_ = os.RemoveAll(s.folder)
}

// killEvery kills the server again and again, and starts it again. It returns what stops that.
func (s *server) killEvery(every time.Duration) (stop func()) {
	if every <= 0 {
		return func() {}
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
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
