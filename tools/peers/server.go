package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// schemas are where the peers keep their data, so that one drops nothing of the other.
const (
	pawlSchema  = "pawl_peers"
	riverSchema = "river_peers"
)

// temporalDatabases are the ones that tools/peers/temporal makes: its lists are in the second one.
var temporalDatabases = []string{"temporal_peers", "temporal_peers_visibility"}

// server is the PostgreSQL server that the peers share, seen as processes of this machine.
type server struct {
	dsn  string
	main int // process id of its first process
}

// findServer checks that commits are durable, and asks the server for its process.
func findServer(ctx context.Context, dsn string) (*server, error) {
	if dsn == "" {
		return nil, fmt.Errorf("-postgres is missing: give the DSN of a superuser, like postgres://me@127.0.0.1/bench")
	}
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close(ctx) }()
	var fsync, commit, file string
	err = c.QueryRow(ctx, "SELECT current_setting('fsync'), current_setting('synchronous_commit'),"+
		" pg_read_file('postmaster.pid')").Scan(&fsync, &commit, &file)
	if err != nil {
		return nil, err
	}
	if fsync != "on" || commit != "on" {
		return nil, fmt.Errorf("fsync is %s and synchronous_commit is %s on the server: both must be on", fsync, commit)
	}
	line, _, _ := strings.Cut(file, "\n")
	id, err := strconv.Atoi(line)
	if err != nil {
		return nil, err
	}
	if _, ok := readStat(id); !ok {
		return nil, fmt.Errorf("the server's process %d is not on this machine: its processor time cannot be seen", id)
	}
	return &server{dsn, id}, nil
}

// clear drops what an earlier turn has left.
func (s *server) clear(ctx context.Context) error {
	c, err := pgx.Connect(ctx, s.dsn)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	_, err = c.Exec(ctx, "DROP SCHEMA IF EXISTS "+pawlSchema+", "+riverSchema+" CASCADE; CREATE SCHEMA "+riverSchema+
		"; CHECKPOINT")
	for _, name := range temporalDatabases {
		if err == nil {
			_, err = c.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
		}
	}
	return err
}

// size returns how many bytes the databases of the server have after a checkpoint.
func (s *server) size(ctx context.Context) (n float64, err error) {
	c, err := pgx.Connect(ctx, s.dsn)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close(ctx) }()
	if _, err := c.Exec(ctx, "CHECKPOINT"); err != nil {
		return 0, err
	}
	err = c.QueryRow(ctx, "SELECT sum(pg_database_size(oid))::float8 FROM pg_database").Scan(&n)
	return n, err
}

// tick is the unit in which Linux counts processor time for programs.
const tick = 10 * time.Millisecond

// processor returns the processor time of the server, with its processes that have ended. Nil: none.
func (s *server) processor() (sum time.Duration) {
	if s == nil {
		return 0
	}
	first, _ := readStat(s.main)
	sum = first.own + first.ended
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		id, _ := strconv.Atoi(filepath.Base(name))
		if st, ok := readStat(id); ok && st.parent == s.main {
			sum += st.own
		}
	}
	return sum
}

// stat is the system's data about a process.
type stat struct {
	parent     int
	own, ended time.Duration // ended: of its children that have ended
}

func readStat(id int) (stat, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return stat{}, false
	}
	// The name, in parentheses, may have spaces. After it come state, parent, and as 12th to 15th the times.
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(f) < 15 {
		return stat{}, false
	}
	n := func(i int) int { v, _ := strconv.Atoi(f[i]); return v }
	return stat{n(1), time.Duration(n(11)+n(12)) * tick, time.Duration(n(13)+n(14)) * tick}, true
}

// machineBusy returns how long the cores of the machine were busy.
func machineBusy() time.Duration {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	var sum int
	for i, field := range strings.Fields(line) {
		// User, nice, system, then idle and waiting for the disk, then interrupts of two kinds.
		if i >= 1 && i <= 7 && i != 4 && i != 5 {
			v, _ := strconv.Atoi(field)
			sum += v
		}
	}
	return time.Duration(sum) * tick
}
