package examples_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pawlbin"
	"github.com/pawl-dev/pawl/pawlhttp"
)

// servedBed is a server and the processes that serve workflows for it, all of them real.
type servedBed struct {
	*testing.T
	bin, address, dir string

	mu    sync.Mutex
	lines map[string]int // about parcels, that the processes have printed
}

// start starts a process and returns it. What it prints is counted.
func (b *servedBed) start(name string, args ...string) *exec.Cmd {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), filepath.Join(b.bin, name), args...)
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), "PAWL_SERVER=", "PAWL_TOKEN=")
	if name == "served" {
		cmd.Env = append(cmd.Env, "PAWL_SERVER=http://"+b.address)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			if strings.HasPrefix(s.Text(), "order ") {
				b.mu.Lock()
				b.lines[s.Text()]++
				b.mu.Unlock()
			}
		}
	}()
	b.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-read
		_ = cmd.Wait()
	})
	return cmd
}

func (b *servedBed) server() *exec.Cmd {
	return b.start("pawl", "dev", "--listen", b.address, "--database", "sqlite:served.db")
}

// packed counts the parcels that were packed, one more time each time that it was.
func (b *servedBed) packed() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, times := range b.lines {
		n += times
	}
	return n
}

// TestServedKilled kills the server and the processes that serve its workflow in turn, with kill -9. No order is lost,
// and only what was at work is made again.
func TestServedKilled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it needs signals")
	}
	nightly.Only(t, "it kills processes for seconds")
	bin := pawlbin.Build(t, "./examples/served", "./cmd/pawl")
	b := &servedBed{T: t, bin: bin, dir: t.TempDir(), lines: map[string]int{}}
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.address = free.Addr().String()
	_ = free.Close() // the server takes the port
	server := b.server()
	serving := []*exec.Cmd{b.start("served", "serve"), b.start("served", "serve")}

	c, err := pawlhttp.Connect("http://"+b.address, pawlhttp.ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const orders, parcels = 6, 3
	ref := pawl.Ref[int, string]("parcels")
	for i := range orders {
		b.again(ctx, func() error {
			_, err := ref.Start(ctx, c, fmt.Sprintf("o-%d", i), parcels, pawl.UseExisting())
			return err
		})
	}
	kills := 0
	for _, more := range []int{2, 3, 3, 3} { // parcels, until the next kill
		for target := b.packed() + more; b.packed() < target && b.packed() < orders*parcels && ctx.Err() == nil; {
			b.look(ctx)
		}
		kills++
		if kills%2 == 0 {
			_ = server.Process.Kill()
			_ = server.Wait()
			server = b.server()
			continue
		}
		_ = serving[0].Process.Kill()
		serving = append(serving[1:], b.start("served", "serve"))
	}
	for i := range orders {
		b.again(ctx, func() error {
			got, err := pawl.RunOf[string](c, fmt.Sprintf("o-%d", i)).Result(ctx)
			if err == nil && got != "3 parcels" {
				t.Errorf("order %d: %s", i, got)
			}
			return err
		})
	}
	if runs, err := c.ListRuns(ctx, client.Query{Workflow: "parcels"}); err != nil || len(runs) != orders {
		t.Errorf("%d runs, %v", len(runs), err)
	}
	b.mu.Lock()
	each := len(b.lines)
	b.mu.Unlock()
	if n := b.packed(); each != orders*parcels || n > orders*parcels+kills*orders {
		t.Errorf("%d parcels were packed, in %d packings, after %d kills", each, n, kills)
	}
	t.Logf("%d packings of %d parcels, %d kills", b.packed(), each, kills)
}

// again does something until it succeeds.
func (b *servedBed) again(ctx context.Context, do func() error) {
	b.Helper()
	for {
		err := do()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			b.Fatal(err)
		}
		b.look(ctx)
	}
}

// look waits a little for other processes.
func (b *servedBed) look(ctx context.Context) {
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
	}
}
