package daemon

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Artifacts reads the files that attempts have kept.
type Artifacts struct {
	Store   *artifact.Store
	Service api.Service // finds runs that are not named by their id
}

var _ api.ArtifactReader = Artifacts{}

// Artifacts implements api.ArtifactReader.
func (a Artifacts) Artifacts(ctx context.Context, name string) (api.Artifacts, error) {
	out := api.Artifacts{Artifacts: []api.Artifact{}}
	run, err := a.run(ctx, name)
	if err != nil {
		return out, err
	}
	kept, err := a.Store.List(ctx, run)
	for _, k := range kept {
		for _, f := range k.Files {
			out.Artifacts = append(out.Artifacts, api.Artifact{
				Step: k.Step, Attempt: k.Attempt.Attempt, Path: f.Path, Size: f.Size, SHA256: f.SHA256,
			})
		}
	}
	return out, err
}

// Artifact implements api.ArtifactReader.
func (a Artifacts) Artifact(ctx context.Context, name, sha256 string) (io.ReadCloser, api.Artifact, error) {
	run, err := a.run(ctx, name)
	if err != nil {
		return nil, api.Artifact{}, err
	}
	f, content, err := a.Store.Open(ctx, run, sha256)
	if errors.Is(err, fs.ErrNotExist) {
		err = &api.Error{Code: api.CodeNotFound, Message: err.Error(), Err: err}
	}
	if err != nil {
		return nil, api.Artifact{}, err
	}
	return content, api.Artifact{Path: f.Path, Size: f.Size, SHA256: f.SHA256}, nil
}

// run returns the id of a run that is there.
func (a Artifacts) run(ctx context.Context, name string) (string, error) {
	if a.Store == nil {
		return "", &api.Error{Code: api.CodeNotFound, Message: "no artifacts are kept here"}
	}
	r, err := a.Service.Run(ctx, name)
	if err != nil {
		return "", err
	}
	return r.Run, nil
}

// sweepArtifacts removes what runs have kept that began before an instant and are not in the database any more.
func (p pruner) sweepArtifacts(ctx context.Context, before time.Time) (int, error) {
	if p.artifacts == nil {
		return 0, nil
	}
	return p.artifacts.Sweep(ctx, time.Now(), func(run string) (bool, error) {
		id, err := core.ParseRunID(run)
		if err != nil || id.CreatedAt() >= policy.At(before) {
			return false, nil //nolint:nilerr // it is none of Pawl's
		}
		_, err = p.svc.Run(ctx, run)
		return api.CodeOf(err) == api.CodeNotFound, ctx.Err()
	})
}
