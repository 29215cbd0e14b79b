// Command capacity measures what a server holds in memory and on disk, by runs, streams and namespaces, and prints it
// as the table of docs/operations/capacity.md.
//
//	go build -o pawl ./cmd/pawl && go run ./tools/capacity -pawl ./pawl -many 20000
package main

import (
	"bufio"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	pawl := flag.String("pawl", "./pawl", "the binary that is measured")
	many := flag.Int("many", 20_000, "how many runs of each kind; a tenth of it streams")
	flag.Parse()
	bin, err := filepath.Abs(*pawl)
	if err == nil {
		err = measure(bin, *many)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "capacity:", err)
		os.Exit(1)
	}
}

// row is one kind of thing that a server holds.
type row struct {
	name string
	flow string // the flow of its runs; empty: streams are opened
	many int
}

const (
	head  = "pawl: 1\nname: f\nsteps:\n"
	third = "  - {name: b, needs: [a], noop: {}}\n  - {name: c, needs: [b], noop: {}}\n"
)

func measure(bin string, many int) error {
	fmt.Println("| what | how many | memory of each | disk of each |\n|---|---|---|---|")
	for _, r := range []row{
		{"a closed run of three steps", head + "  - {name: a, noop: {}}\n" + third, many},
		{"a run that sleeps for a day", head + "  - {name: a, sleep: 24h}\n", many},
		{"a run that waits for an event", head + "  - {name: a, wait: {event: e}}\n", many},
		{"a run whose task waits for a worker", head + "  - {name: a, task: {queue: q, type: t}}\n", many},
		{"a stream of events that is open", "", many / 10},
	} {
		if err := r.measure(bin); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return namespaces(bin, 10)
}

// measure starts a server, makes it hold what the row describes, and prints what that takes.
func (r row) measure(bin string) error {
	s, err := start(bin)
	if err != nil {
		return err
	}
	defer s.stop()
	before, err := s.use()
	if err != nil {
		return err
	}
	if r.flow == "" {
		err = s.streams(r.many)
	} else {
		err = s.runs(r.flow, r.many)
	}
	if err != nil {
		return err
	}
	after, err := s.use()
	if err != nil {
		return err
	}
	r.print(before, after)
	return nil
}

func (r row) print(before, after use) {
	each := func(n int64) string { return fmt.Sprintf("%.1f kB", float64(n)/float64(r.many)/1000) }
	disk := "–"
	if r.flow != "" {
		disk = each(after.disk - before.disk)
	}
	fmt.Printf("| %s | %d | %s | %s |\n", r.name, r.many, each(after.memory-before.memory), disk)
}

// namespaces prints what each namespace takes that has no runs.
func namespaces(bin string, many int) error {
	var uses [2]use
	for i, n := range []int{0, many} {
		names := make([]string, n)
		for j := range names {
			names[j] = fmt.Sprint("n", j)
		}
		s, err := start(bin, "--namespaces", strings.Join(names, ","))
		if err != nil {
			return err
		}
		uses[i], err = s.use()
		s.stop()
		if err != nil {
			return err
		}
	}
	row{"a namespace without runs", " ", many}.print(uses[0], uses[1])
	memory, disk := float64(uses[0].memory)/1e6, float64(uses[0].disk)/1e3
	fmt.Printf("| the server itself | 1 | %.0f MB | %.0f kB |\n", memory, disk)
	return nil
}

// server is a server that is measured.
type server struct {
	cmd     *exec.Cmd
	dir     string
	address string
	token   string
	open    []net.Conn
}

func start(bin string, flags ...string) (*server, error) {
	dir, err := os.MkdirTemp("", "pawl-capacity-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	database := "sqlite:" + filepath.Join(dir, "pawl.db")
	token, err := exec.Command(bin, "token", "create", "a", "--role", "admin", "--database", database).Output()
	if err != nil {
		return nil, err
	}
	s.token = strings.TrimSpace(string(token))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.address = l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	args := []string{
		"server", "--database", database, "--listen", s.address, "--waits", "0", "--all-waits", "0", "--queued", "0",
	}
	s.cmd = exec.Command(bin, append(args, flags...)...)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for range 300 {
		if err = s.ask("GET", "/readyz", "", http.StatusOK); err == nil {
			return s, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.stop()
	return nil, err
}

// stop ends the server and removes what it has stored.
func (s *server) stop() {
	for _, c := range s.open {
		_ = c.Close()
	}
	_ = s.cmd.Process.Kill() // nothing of it is needed
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.dir)
}

func (s *server) ask(method, path, body string, want int) error {
	r, err := http.NewRequest(method, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != want {
		return fmt.Errorf("%s %s: %s", method, path, answer.Status)
	}
	return nil
}

// runs starts that many runs of a flow.
func (s *server) runs(flow string, many int) error {
	body := fmt.Sprintf(`{"flow":%q}`, flow)
	var all sync.WaitGroup
	failed := make([]error, 16)
	for w := range failed {
		all.Go(func() {
			for i := w; i < many && failed[w] == nil; i += len(failed) {
				failed[w] = s.ask("POST", "/api/v1/runs", body, http.StatusCreated)
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// streams opens that many streams of all changes.
func (s *server) streams(many int) error {
	for range many {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			return err
		}
		s.open = append(s.open, c)
		_, err = fmt.Fprintf(c, "GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", s.token)
		if err != nil {
			return err
		}
		answer, err := http.ReadResponse(bufio.NewReader(c), nil) //nolint:bodyclose // it ends with the connection
		if err != nil || answer.StatusCode != http.StatusOK {
			return fmt.Errorf("a stream: %w", cmp.Or(err, errors.New("refused")))
		}
	}
	return nil
}

// use is a server's use of memory, in bytes.
type use struct{ memory, disk int64 }

// restFor is how long a server rests until what it takes is the same.
const restFor = 50 * time.Second

// use returns what the server takes when it has rested: the least of the last moments.
func (s *server) use() (use, error) {
	var of []int64
	for range 5 {
		time.Sleep(restFor / 5)
		n, err := s.resident()
		if err != nil {
			return use{}, err
		}
		of = append(of, n)
	}
	out := use{memory: slices.Min(of)}
	err := filepath.WalkDir(s.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			out.disk += info.Size()
		}
		return err
	})
	return out, err
}

// resident returns the resident memory of the server, from Linux.
func (s *server) resident() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return kb << 10, err
}
