// Command objectserver is a small object store that misbehaves on purpose: every object's first upload is answered with
// 503 and Retry-After, the second hangs, the third loses its connection half-way, and the fourth is accepted. It
// listens on loopback, keeps objects in memory and exits when there was no request for a while.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const maxObject = 256 << 20

func main() {
	listen := flag.String("listen", "127.0.0.1:18333", "loopback address to listen on")
	detach := flag.Bool("detach", false, "start in the background, wait until it answers, and return")
	idle := flag.Duration("idle", 10*time.Minute, "leave after that long without a request")
	calm := flag.Bool("calm", false, "behave")
	flag.Parse()
	if host, _, err := net.SplitHostPort(*listen); err != nil || !net.ParseIP(host).IsLoopback() {
		log.Fatalf("objectserver: %q is not a loopback address such as 127.0.0.1:18333", *listen)
	}
	var err error
	if *detach {
		err = background(*listen, *idle)
	} else {
		err = serve(*listen, *idle, *calm)
	}
	if err != nil {
		log.Fatal("objectserver: ", err)
	}
}

// background starts this program again in a new session and returns when that process answers. It takes nothing of the
// caller's environment along, so it does not count as the caller's work.
func background(listen string, idle time.Duration) error {
	if answers(listen) {
		fmt.Println(`{"started":false}`)
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// go run deletes its binary when it returns: the server needs a copy that stays.
	binary, err := copyOf(self)
	if err != nil {
		return err
	}
	cmd := exec.Command(binary, "-listen", listen, "-idle", idle.String())
	cmd.Env = []string{"HOME=" + os.Getenv("HOME")}
	ownSession(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		if answers(listen) {
			fmt.Printf("{\"started\":true,\"pid\":%d}\n", cmd.Process.Pid)
			return nil
		}
		select {
		case err := <-gone:
			return fmt.Errorf("the server ended at once: %w", err)
		default:
		}
	}
}

func copyOf(path string) (string, error) {
	from, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer from.Close()
	to, err := os.CreateTemp("", "pawl-objectserver-*")
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(to, from); err != nil {
		return "", errors.Join(err, to.Close())
	}
	if err := to.Chmod(0o700); err != nil {
		return "", errors.Join(err, to.Close())
	}
	return to.Name(), to.Close()
}

func answers(listen string) bool {
	client := http.Client{Timeout: time.Second}
	resp, err := client.Get("http://" + listen + "/")
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil
}

// store holds the objects and counts the uploads of each.
type store struct {
	calm  bool
	touch func()

	mu      sync.Mutex
	uploads map[string]int
	sums    map[string]string
}

func serve(listen string, idle time.Duration, calm bool) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	leave := time.AfterFunc(idle, stop)
	s := &store{calm: calm, touch: func() { leave.Reset(idle) }, uploads: map[string]int{}, sums: map[string]string{}}
	server := &http.Server{Addr: listen, Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
		if self, err := os.Executable(); err == nil && strings.Contains(self, "pawl-objectserver-") {
			_ = os.Remove(self)
		}
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.touch()
	name, ok := strings.CutPrefix(r.URL.Path, "/objects/")
	switch {
	case r.URL.Path == "/":
		fmt.Fprintln(w, "an object store that misbehaves on purpose")
	case !ok || name == "":
		http.NotFound(w, r)
	case r.Method == http.MethodPut:
		s.put(w, r, name)
	case r.Method == http.MethodGet:
		s.get(w, name)
	default:
		http.Error(w, "use PUT or GET", http.StatusMethodNotAllowed)
	}
}

func (s *store) put(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	s.uploads[name]++
	n := s.uploads[name]
	s.mu.Unlock()
	if !s.calm {
		switch n {
		case 1:
			w.Header().Set("Retry-After", "2")
			http.Error(w, "come back in two seconds", http.StatusServiceUnavailable)
			return
		case 2:
			<-r.Context().Done() // waits until the client gives up
			return
		case 3:
			panic(http.ErrAbortHandler) // drops the connection
		}
	}
	sum := sha256.New()
	size, err := io.Copy(sum, http.MaxBytesReader(w, r.Body, maxObject))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.sums[name] = hex.EncodeToString(sum.Sum(nil))
	s.mu.Unlock()
	reply(w, http.StatusCreated, map[string]any{"object": name, "bytes": size, "uploads": n})
}

func (s *store) get(w http.ResponseWriter, name string) {
	s.mu.Lock()
	sum, ok := s.sums[name]
	s.mu.Unlock()
	if !ok {
		http.Error(w, "no such object", http.StatusNotFound)
		return
	}
	reply(w, http.StatusOK, map[string]any{"object": name, "sha256": sum})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
