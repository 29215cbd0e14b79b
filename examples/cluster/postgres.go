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

// startPostgres starts a PostgreSQL server whose data lies in the folder, and returns its address.
func startPostgres(ctx context.Context, dir string) (dsn string, stop func(), err error) {
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
	data := filepath.Join(dir, "data")
	err = command(ctx, dir, filepath.Join(bin, "initdb"), "--pgdata", data, "--username", "pawl", "--auth", "trust")
	if err != nil {
		return "", nil, err
	}
	err = command(ctx, dir, filepath.Join(bin, "pg_ctl"), "--pgdata", data, "--wait",
		"--log", filepath.Join(dir, "log"), "--options", fmt.Sprintf("-h %s -p %s -k ''", host, port), "start")
	if err != nil {
		return "", nil, err
	}
	stop = func() {
		err := command(context.Background(), dir, filepath.Join(bin, "pg_ctl"), "--pgdata", data, "--wait", "--mode",
			"fast", "stop")
		if err != nil {
			fmt.Fprintln(os.Stderr, "cluster: PostgreSQL was not stopped:", err)
		}
	}
	u := url.URL{Scheme: "postgres", User: url.User("pawl"), Host: address, Path: "postgres"}
	return u.String() + "?sslmode=disable", stop, nil
}

// postgresPrograms returns the folder of PostgreSQL's programs.
func postgresPrograms() (string, error) {
	if os.Geteuid() == 0 {
		return "", errors.New("PostgreSQL refuses root: start this as another user, or give -database postgres://…")
	}
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

// command runs a program, and returns what it says if it fails.
func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, out)
	}
	return nil
}
