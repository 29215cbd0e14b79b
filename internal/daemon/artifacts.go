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
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/policy"
)

// Artifacts reads the files that attempts have kept.
type Artifacts struct {
	Store   *artifact.Store
	Service api.Service // finds runs that are not named by their id
}

var _ api.ArtifactKeeper = Artifacts{}

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

func (a Artifacts) Artifact(ctx context.Context, name, sha256 string) (io.ReadCloser, api.Artifact, error) {
	run, err := a.run(ctx, name)
	if err != nil {
		return nil, api.Artifact{}, err
	}
	f, content, err := a.Store.Open(ctx, run, sha256)
	if err != nil {
		return nil, api.Artifact{}, refusedFile(err)
	}
	return content, api.Artifact{Path: f.Path, Size: f.Size, SHA256: f.SHA256}, nil
}

func (a Artifacts) Keep(ctx context.Context, task string, files []api.AttemptFile) ([]string, error) {
	tok, ok := remote.TokenOf(task)
	run, err := a.Service.Run(ctx, tok.Run.String())
	if err == nil && (!ok || int(tok.Step) >= len(run.Steps)) {
		err = &api.Error{Code: api.CodeNotFound, Message: "the run has no such step"}
	}
	if err != nil {
		return nil, err
	}
	kept := make([]artifact.File, len(files))
	for i, f := range files {
		kept[i] = artifact.File(f)
	}
	missing, err := a.Store.Receive(ctx, artifact.Attempt{
		Run: run.Run, Step: run.Steps[tok.Step].Step, Attempt: tok.Attempt,
	}, kept)
	return missing, refusedFile(err)
}

func (a Artifacts) Receive(ctx context.Context, sha256 string, size int64, r io.Reader) error {
	return refusedFile(a.Store.ReceiveContent(ctx, sha256, size, r))
}

func (a Artifacts) Content(ctx context.Context, sha256 string) (io.ReadCloser, error) {
	content, err := a.Store.Content(ctx, sha256)
	return content, refusedFile(err)
}

// refusedFile gives the error of a file its code.
func refusedFile(err error) error {
	var wrong *artifact.Error
	switch {
	case errors.As(err, &wrong):
		return &api.Error{Code: api.CodeInvalid, Message: err.Error(), Err: err}
	case errors.Is(err, fs.ErrNotExist):
		return &api.Error{Code: api.CodeNotFound, Message: err.Error(), Err: err}
	}
	return err
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

// sweepArtifacts removes the artifacts of runs that began before an instant and are no longer in the database.
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
