package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// folder returns the folder on this machine from which the paths of artifacts count. It fails if that is not there.
func (p *ExecPayload) folder() (string, *policy.Failure) {
	folder, key := p.Dir, "dir"
	switch {
	case p.Container == nil && p.Dir == "":
		return ".", nil
	case p.Container == nil:
	case p.Container.Workspace == "" || filepath.IsAbs(p.Dir):
		return "", artifactFailure(policy.KindFailed, errors.New("the paths of files count from the workspace of the "+
			"container, which has none here, or from a dir in it"))
	case p.Dir == "":
		folder, key = p.Container.Workspace, "workspace"
	default:
		folder, key = filepath.Join(p.Container.Workspace, p.Dir), "workspace or dir"
	}
	return folder, noFolder(folder, key)
}

// noFolder returns the failure of an attempt whose folder is not there; nil: it is there.
func noFolder(path, key string) *policy.Failure {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return notFound(fmt.Sprintf("the folder %s does not exist; create it, or correct %s", path, key))
	}
	return nil
}

// take puts the artifacts of other steps into the folder of the process.
func (e *Exec) take(ctx context.Context, p *ExecPayload) *policy.Failure {
	var files []artifact.File
	for _, value := range p.Take {
		some, err := ArtifactsIn(value)
		if err != nil {
			return artifactFailure(policy.KindFailed, err)
		}
		files = append(files, some...)
	}
	if len(files) == 0 {
		return nil
	}
	folder, failure := p.folder()
	if failure != nil {
		return failure
	}
	if e.cfg.Artifacts == nil {
		return artifactFailure(policy.KindFailed, errNoArtifacts)
	}
	if err := e.cfg.Artifacts.Take(ctx, folder, files); err != nil {
		return NotKept(ctx, err)
	}
	return nil
}

// ArtifactsIn reads what the output of a step, or those of the items of one, say of artifacts.
func ArtifactsIn(value json.RawMessage) ([]artifact.File, error) {
	var list []json.RawMessage
	if value = bytes.TrimSpace(value); len(value) == 0 || string(value) == "null" {
		return nil, nil // the step was left out, or failed
	}
	if err := json.Unmarshal(value, &list); err != nil {
		return nil, fmt.Errorf("artifacts: %s is not a list of artifacts", Shorten(string(value), 60))
	}
	var files []artifact.File
	for _, one := range list {
		if one = bytes.TrimSpace(one); len(one) > 0 && one[0] == '{' {
			var f artifact.File
			if err := json.Unmarshal(one, &f); err != nil {
				return nil, fmt.Errorf("artifacts: %w", err)
			}
			files = append(files, f)
			continue
		}
		some, err := ArtifactsIn(one)
		if err != nil {
			return nil, err
		}
		files = append(files, some...)
	}
	return files, nil
}

var errNoArtifacts = errors.New("artifacts: this program keeps none: say where, by Config.Artifacts")

// keep keeps the artifacts of an attempt that has ended by itself, and adds them to its output. One that failed may not
// have made all of them, so what is missing is told in its log alone.
func (e *Exec) keep(ctx context.Context, t core.Task, p *ExecPayload, out *capture, res *Result) {
	if len(p.Artifacts) == 0 {
		return
	}
	failure := res.Failure
	files, odd, problem := e.keepArtifacts(ctx, t, p)
	for _, one := range odd {
		out.log.write(StreamPawl, []byte("\n[pawl: artifacts: "+one+"]\n"))
	}
	switch {
	case problem == nil && failure == nil:
		res.Output = WithField(res.Output, "artifacts", files)
	case problem != nil && failure == nil:
		res.Failure = problem
	case problem != nil:
		out.log.write(StreamPawl, []byte("\n[pawl: "+problem.Message+"]\n"))
	}
}

func (e *Exec) keepArtifacts(
	ctx context.Context, t core.Task, p *ExecPayload,
) (files []artifact.File, odd []string, failure *policy.Failure) {
	folder, failure := p.folder()
	if failure != nil {
		return nil, nil, failure
	}
	if e.cfg.Artifacts == nil {
		return nil, nil, artifactFailure(policy.KindFailed, errNoArtifacts)
	}
	files, odd, err := e.cfg.Artifacts.Keep(ctx, folder, p.Artifacts, artifact.Attempt{
		Run: t.Token.Run.String(), Step: t.StepName, Attempt: t.Token.Attempt,
	})
	if err != nil {
		return nil, odd, NotKept(ctx, err)
	}
	return files, odd, nil
}

// NotKept returns the failure of an attempt whose artifacts could not be kept or taken.
func NotKept(ctx context.Context, err error) *policy.Failure {
	var wrong *artifact.Error
	switch {
	case ctx.Err() != nil:
		return Stopped(ctx)
	case errors.As(err, &wrong), errors.Is(err, os.ErrNotExist):
		return artifactFailure(policy.KindFailed, err)
	}
	return artifactFailure(policy.KindError, err)
}

func artifactFailure(kind policy.Kind, err error) *policy.Failure {
	return &policy.Failure{Kind: kind, Type: "artifacts", Message: err.Error()}
}
