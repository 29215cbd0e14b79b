package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker"
)

const (
	// mostFiles is how many files an attempt on another machine keeps at most: their list is one request.
	mostFiles = 2000
	// fileTries is how often files are sent and asked for while the server does not answer. Then the attempt fails.
	fileTries = 8
)

// FileTask executes tasks that take files of other steps and make some. Each attempt has a folder for them.
type FileTask struct {
	API api.TaskArtifacts
	// Work executes a task whose folder is there, with the files that it takes.
	Work func(ctx context.Context, t core.Task, folder string, alive worker.Alive) worker.Result
}

func (f FileTask) Execute(ctx context.Context, t *core.Task, alive worker.Alive) worker.Result {
	folder, err := os.MkdirTemp("", "pawl-files-*")
	if err != nil {
		return worker.Result{Failure: worker.NotKept(ctx, err)}
	}
	defer func() { _ = os.RemoveAll(folder) }() // a rest stays in the system's folder for such files
	a := fileAttempt{f.API, tokenText(t.Token, t.Secret), alive}
	taken := filesOf(t.Payload)
	if err := a.take(ctx, folder, taken); err != nil {
		return worker.Result{Failure: worker.NotKept(ctx, err)}
	}
	res := f.Work(ctx, *t, folder, alive)
	if ctx.Err() != nil || res.Abandoned {
		return res
	}
	files, err := a.keep(ctx, folder, taken)
	switch {
	case err != nil && res.Failure == nil:
		res.Failure = worker.NotKept(ctx, err)
	case err == nil && res.Failure == nil && len(files) > 0:
		res.Output = worker.WithField(res.Output, "artifacts", files)
	}
	return res
}

// filesOf returns the files of other steps that the input of a task names. An input that means something else by that
// word names none.
func filesOf(input []byte) []artifact.File {
	var in struct {
		Artifacts json.RawMessage `json:"artifacts"`
	}
	if json.Unmarshal(input, &in) != nil {
		return nil
	}
	files, err := worker.ArtifactsIn(in.Artifacts)
	if err != nil || slices.ContainsFunc(files, func(f artifact.File) bool { return len(f.SHA256) != 64 }) {
		return nil
	}
	return files
}

// fileAttempt sends and gets the files of an attempt.
type fileAttempt struct {
	api   api.TaskArtifacts
	task  string
	alive worker.Alive
}

// take writes files of other steps into the folder.
func (a fileAttempt) take(ctx context.Context, folder string, files []artifact.File) error {
	return artifact.Write(ctx, folder, files, func(ctx context.Context, f artifact.File) (r io.ReadCloser, err error) {
		err = again(ctx, func() error {
			r, err = a.api.Content(ctx, a.task, f.SHA256)
			return err
		})
		return r, permanent(err)
	})
}

// keep keeps files in the folder that were not taken.
func (a fileAttempt) keep(ctx context.Context, folder string, taken []artifact.File) ([]artifact.File, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if inside, err := os.ReadDir(folder); err != nil || len(inside) == 0 {
		return nil, err
	}
	files, err := artifact.Scan(ctx, root, []string{"."}, artifact.Limits{Files: mostFiles + len(taken)})
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(f artifact.File) bool {
		return slices.ContainsFunc(taken, func(t artifact.File) bool {
			return t.Path == f.Path && t.SHA256 == f.SHA256
		})
	})
	if len(files) == 0 {
		return nil, nil
	}
	return files, permanent(again(ctx, func() error { return a.send(ctx, root, files) }))
}

// send sends the list, the missing files, and the list again.
func (a fileAttempt) send(ctx context.Context, root *os.Root, files []artifact.File) error {
	list := make([]api.AttemptFile, len(files))
	for i, f := range files {
		list[i] = api.AttemptFile(f)
	}
	missing, err := a.api.KeepFiles(ctx, a.task, list)
	if err != nil || len(missing) == 0 {
		return err
	}
	for _, sum := range missing {
		i := slices.IndexFunc(files, func(f artifact.File) bool { return f.SHA256 == sum })
		if i < 0 {
			return fmt.Errorf("artifacts: the server asks for %s, which is not in the list", sum)
		}
		if err := a.sendOne(ctx, root, files[i]); err != nil {
			return err
		}
	}
	if missing, err = a.api.KeepFiles(ctx, a.task, list); err == nil && len(missing) > 0 {
		err = &api.Error{Code: api.CodeUncertain, Message: "what was sent is missing: " + missing[0]}
	}
	return err
}

func (a fileAttempt) sendOne(ctx context.Context, root *os.Root, f artifact.File) error {
	file, err := root.Open(filepath.FromSlash(f.Path))
	if err != nil {
		return err
	}
	defer file.Close()
	return a.api.SendContent(ctx, a.task, f.SHA256, f.Size, &audible{file, a.alive})
}

// audible is a file of which each part that is read is a sign of life.
type audible struct {
	file  *os.File
	alive worker.Alive
}

func (a *audible) Read(p []byte) (int, error) {
	a.alive.Output()
	return a.file.Read(p)
}

// again tries something a few times, as long as its error may be temporary.
func again(ctx context.Context, try func() error) (err error) {
	for wait, n := time.Duration(0), 0; ; n++ {
		if err = try(); err == nil || !temporary(err) || api.CodeOf(err) == api.CodeStale || n == fileTries-1 {
			return err
		}
		wait = longer(wait)
		if pause(ctx, wait); ctx.Err() != nil {
			return err
		}
	}
}

// permanent marks an error as one that another attempt would have, too, if it is.
func permanent(err error) error {
	if err != nil && !temporary(err) {
		return artifact.Wrong(err)
	}
	return err
}
