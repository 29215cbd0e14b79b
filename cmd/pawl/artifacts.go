package main

import (
	"context"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/artifact/s3"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/daemon/database"
)

// artifactStore returns where the steps of a database keep files. Nil: nowhere.
func (a *app) artifactStore(ctx context.Context, p database.Place) (*artifact.Store, error) {
	if strings.HasPrefix(a.artifacts, "s3:") {
		bucket, err := s3.Open(ctx, a.artifacts, p.Namespace)
		if err != nil {
			return nil, usage("--artifacts: %w", err)
		}
		store := artifact.New(bucket, artifact.Limits{})
		if err := store.Claim(ctx, p.Identity()); err != nil {
			return nil, usage("--artifacts: %w", err)
		}
		return store, nil
	}
	folder := a.artifacts
	switch {
	case strings.Contains(folder, "://"):
		return nil, usage("--artifacts is a folder, or s3://BUCKET/PREFIX, not %s", folder)
	case folder == "":
		folder = p.ArtifactDir()
	case p.Namespace != "":
		folder += "-" + p.Namespace
	}
	if folder == "" {
		return nil, nil
	}
	return artifact.New(artifact.NewFolder(folder), artifact.Limits{}), nil
}

// artifactsOf returns what reads the files that runs of a service have kept.
func (a *app) artifactsOf(ctx context.Context, svc api.Service) (api.ArtifactReader, error) {
	if a.server != "" {
		return a.connect()
	}
	p, err := a.where()
	if err != nil {
		return nil, err
	}
	store, err := a.artifactStore(ctx, p)
	return daemon.Artifacts{Store: store, Service: svc}, err
}
