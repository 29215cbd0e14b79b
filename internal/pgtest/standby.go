package pgtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Standby starts a server that follows this one. If this server has the setting synchronous_standby_names=walreceiver,
// no commit is answered before the standby has it. The standby may have settings of its own.
func (s *Server) Standby(settings ...string) *Server {
	s.t.Helper()
	standby := s.Copy("--write-recovery-conf")
	standby.c.settings = settings
	standby.Start()
	return standby
}

// StandbyAt starts a server that follows this one, with its settings, at the address of another one, which was killed.
func (s *Server) StandbyAt(killed *Server) *Server {
	s.t.Helper()
	standby := s.Copy("--write-recovery-conf")
	standby.c.settings = s.c.settings
	standby.Replace(killed)
	return standby
}

// Copy makes a server of the present data, like a restored backup. Start starts it. The options are those of
// pg_basebackup.
func (s *Server) Copy(options ...string) *Server {
	s.t.Helper()
	dir, err := os.MkdirTemp("", "pawl-pg-")
	if err != nil {
		s.t.Fatal(err)
	}
	next := &Server{t: s.t, c: cluster{bin: s.c.bin, dir: dir, who: s.c.who, password: s.c.password}}
	s.t.Cleanup(func() {
		if err := next.c.remove(); err != nil {
			s.t.Error(err)
		}
	})
	if next.c.who != nil {
		err = os.Chown(dir, next.c.who.uid, next.c.who.gid)
	}
	if err == nil {
		err = next.c.run(s.t.Context(), "pg_basebackup", append([]string{
			"--pgdata", next.c.data(), "--dbname", s.c.dsn(), "--checkpoint", "fast", "--no-sync",
		}, options...)...)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return next
}

// Start starts the server that Copy has made.
func (s *Server) Start() {
	s.t.Helper()
	if err := s.c.start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// Replace starts the server that Copy has made at the address of another server, which was killed.
func (s *Server) Replace(killed *Server) {
	s.t.Helper()
	if err := s.c.startOn(s.t.Context(), killed.c.port); err != nil {
		s.t.Fatal(err)
	}
}

// Promote makes the standby a primary, and returns when it is one.
func (s *Server) Promote() {
	s.t.Helper()
	if err := s.c.run(s.t.Context(), "pg_ctl", "--pgdata", s.c.data(), "--wait", "promote"); err != nil {
		s.t.Fatal(err)
	}
}

// Kill ends the server as kill -9 does, and returns when nothing of it is left.
func (s *Server) Kill() {
	s.t.Helper()
	path := filepath.Join(s.c.data(), "postmaster.pid")
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		s.t.Fatal(err)
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	// The server's other processes notice on their own that it is gone, and no server can start where its files are.
	socket := filepath.Join(s.c.dir, fmt.Sprintf(".s.PGSQL.%d", s.c.port))
	if err = errors.Join(err, os.Remove(path), os.Remove(socket), os.Remove(socket+".lock")); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if free(s.t.Context(), s.c.port) {
			return
		}
	}
	s.t.Fatal("something of the killed server still listens")
}

// Set changes the settings with which the server starts the next time.
func (s *Server) Set(settings ...string) { s.c.settings = settings }
