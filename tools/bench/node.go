package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawlcluster"
)

// The files of a row's folder from which its nodes learn where the database is, and the secret of the cluster. An
// address may have a password, so it is not an argument that others could see.
const (
	addressFile = "address"
	secretFile  = "secret"
)

// prepareNodes writes what the nodes of a row read.
func (s *session) prepareNodes(address *url.URL) error {
	return errors.Join(
		os.WriteFile(filepath.Join(s.dir, addressFile), []byte(address.String()), 0o600),
		os.WriteFile(filepath.Join(s.dir, secretFile), []byte(rand.Text()+rand.Text()), 0o600),
	)
}

// runNode works as a node of a cluster with the given number of clients. Each of them starts one run after the other.
// It hands its partitions over when ctx is done.
func runNode(ctx context.Context, dir string, clients int, say func(string, time.Time)) error {
	address, err := os.ReadFile(filepath.Join(dir, addressFile))
	if err != nil {
		return err
	}
	secret, err := os.ReadFile(filepath.Join(dir, secretFile))
	if err != nil {
		return err
	}
	e, err := pawl.Open(ctx, pawl.Config{
		Database: string(address), Workflows: []pawl.Definition{goOneStep, goSleep},
		Log:     slog.New(slog.DiscardHandler), // it would write a line for each request between nodes
		Cluster: pawlcluster.Node{Listen: "127.0.0.1:0", Secret: secret},
	})
	if err != nil {
		return err
	}
	once := func(ctx context.Context) error {
		run, err := goOneStep.Start(ctx, e, "", 1)
		if err == nil {
			_, err = run.Result(ctx)
		}
		return err
	}
	err = once(ctx)
	if err == nil {
		say("ready", time.Now())
		err = onAndOn(ctx, clients, once)
	}
	return errors.Join(err, e.Close())
}

// onAndOn makes clients do something until ctx is done. A run whose partition is moving is not the clients' concern.
func onAndOn(ctx context.Context, clients int, once func(context.Context) error) error {
	err := each(ctx, clients, clients, func(ctx context.Context, _ int) error {
		for ctx.Err() == nil {
			if err := once(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, pawl.ErrHeld) &&
				!errors.Is(err, pawlcluster.ErrUncertain) {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
