package facetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/journal/memory"
	_ "github.com/pawl-dev/pawl/journal/sqlite"
)

// TestOpenWaitsForTheHolder checks that a program that starts while the one before still ends takes the database over
// from it.
func TestOpenWaitsForTheHolder(t *testing.T) {
	for _, database := range []string{"sqlite:" + filepath.Join(t.TempDir(), "shop.db"), ""} {
		bubble(t, func(t *testing.T) {
			var log bytes.Buffer
			cfg := pawl.Config{Database: database, Log: slog.New(slog.NewTextHandler(&log, nil))}
			if database == "" {
				cfg.Journal = memory.New()
			}
			first, err := pawl.Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			opened := make(chan time.Time)
			go func() {
				second, err := pawl.Open(t.Context(), cfg)
				opened <- time.Now()
				if err != nil {
					t.Error(err)
					return
				}
				_ = second.Close()
			}()
			<-time.After(time.Minute)
			synctest.Wait()
			if !strings.Contains(log.String(), fmt.Sprintf("pid %d", os.Getpid())) {
				t.Errorf("%q: the log does not say who holds the database: %s", database, log.String())
			}
			closed := time.Now()
			must(t, first.Close())
			if late := (<-opened).Sub(closed); late < 0 || late > time.Second {
				t.Errorf("%q: it was opened %s after the first engine closed", database, late)
			}
			synctest.Wait()
		})
	}
}

// TestErrHeld checks that a caller that does not want to wait any longer learns who holds the database.
func TestErrHeld(t *testing.T) {
	if path := os.Getenv("PAWL_TEST_HOLD"); path != "" {
		holdDatabase(path)
		return
	}
	path := filepath.Join(t.TempDir(), "shop.db")
	cmd := exec.Command(os.Args[0], "-test.run=^TestErrHeld$")
	cmd.Env = append(os.Environ(), "PAWL_TEST_HOLD="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	must(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	defer in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	quiet := slog.New(slog.DiscardHandler)
	_, err = pawl.Open(over, pawl.Config{Database: "sqlite:" + path, Log: quiet})
	if !errors.Is(err, pawl.ErrHeld) || !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), fmt.Sprintf("held by pid %d", cmd.Process.Pid)) {
		t.Errorf("the error is %v", err)
	}
}

// holdDatabase holds a database until its standard input ends.
func holdDatabase(path string) {
	e, err := pawl.Open(context.Background(), pawl.Config{Database: "sqlite:" + path})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	_ = e.Close()
	os.Exit(0)
}

// TestLogDefault checks that the engine's messages are not lost where no logger is configured.
func TestLogDefault(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	bubble(t, func(t *testing.T) {
		e, err := pawl.Open(t.Context(), pawl.Config{Database: "memory:"})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		free := make(chan struct{})
		defer close(free)
		w := pawl.Define("w", func(pawl.Context, int) (int, error) {
			<-free //pawlvet:ignore it is still busy when the engine is closed
			return 0, nil
		})
		if _, err := w.Start(t.Context(), e, "", 0); err != nil {
			t.Fatal(err)
		}
		<-time.After(30 * time.Second)
		synctest.Wait()
	})
	if !strings.Contains(log.String(), "a workflow's body cannot go on") {
		t.Errorf("the default logger got %q", log.String())
	}
}
