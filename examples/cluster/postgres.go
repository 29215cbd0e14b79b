package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// startPostgres starts a PostgreSQL server that is thrown away when it is stopped, and returns its address.
func startPostgres(ctx context.Context) (dsn string, stop func(), err error) {
	bin, err := postgresPrograms()
	if err != nil {
		return "", nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return "", nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "pawl-postgres-")
	if err != nil {
		return "", nil, err
	}
	as, err := serverUser(dir)
	data := filepath.Join(dir, "data")
	control := func(ctx context.Context, args ...string) error {
		args = append([]string{"--pgdata", data, "--wait"}, args...)
		return command(ctx, dir, as, filepath.Join(bin, "pg_ctl"), args...)
	}
	if err == nil {
		err = command(ctx, dir, as, filepath.Join(bin, "initdb"), "--pgdata", data, "--username", "pawl",
			"--auth", "trust")
	}
	if err == nil {
		options := fmt.Sprintf("-h %s -p %s -k ''", host, port)
		err = control(ctx, "--log", filepath.Join(dir, "log"), "--options", options, "start")
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop = func() {
		if err := errors.Join(control(context.Background(), "--mode", "fast", "stop"), os.RemoveAll(dir)); err != nil {
			fmt.Fprintln(os.Stderr, "cluster: PostgreSQL was not stopped:", err)
		}
	}
	u := url.URL{Scheme: "postgres", User: url.User("pawl"), Host: address, Path: "postgres"}
	return u.String() + "?sslmode=disable", stop, nil
}

// postgresPrograms returns the folder of PostgreSQL's programs.
func postgresPrograms() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.New("PostgreSQL's programs are missing: install it (apt-get install postgresql, " +
			"brew install postgresql), or give -database postgres://…")
	}
	return filepath.Dir(slices.Max(found)), nil
}

// command runs a program as another user, and returns its output if it fails.
func command(ctx context.Context, dir string, as func(*exec.Cmd), name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	as(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, out)
	}
	return nil
}
