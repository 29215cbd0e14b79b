package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/naming"
	"github.com/pawl-dev/pawl/internal/worker"
)

// logPart bounds one part of a log, in bytes.
const logPart = 256 << 10

// Logs reads the logs of attempts that were executed on this machine.
type Logs struct {
	Dir     string
	Service api.Service // finds runs that are not named by their id
}

// runNamed returns the id of a run by any of its names. The run with that id may have been removed, while its files
// still exist.
func runNamed(ctx context.Context, svc api.Service, name string) (core.RunID, error) {
	run, err := core.ParseRunID(name)
	if err == nil {
		return run, nil
	}
	r, err := svc.Run(ctx, name)
	if err != nil {
		return run, err
	}
	return core.ParseRunID(r.Run)
}

// keyOf returns the key of a step that is named by the name of an item.
func (l Logs) keyOf(ctx context.Context, run, step string) (string, error) {
	if _, _, named := naming.Item(step); !named {
		return step, nil
	}
	r, err := l.Service.Run(ctx, run)
	if err != nil {
		return "", err
	}
	s, several := r.Named(step)
	switch {
	case s != nil:
		return s.Step, nil
	case len(several) > 0:
		return "", &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf(
			"several items are called %q: say which, by its number: %s", step,
			strings.Join(several[:min(len(several), 20)], ", "))}
	}
	return "", &api.Error{Code: api.CodeNotFound, Message: fmt.Sprintf("the run has no step %q", step)}
}

func (l Logs) Log(ctx context.Context, name string, at api.LogPlace) (api.LogPart, error) {
	run, err := runNamed(ctx, l.Service, name)
	if err != nil {
		return api.LogPart{}, err
	}
	if at.From < 0 {
		return api.LogPart{}, &api.Error{Code: api.CodeInvalid, Message: "log: a place is a number of bytes, or 0"}
	}
	if at.Step, err = l.keyOf(ctx, name, at.Step); err != nil {
		return api.LogPart{}, err
	}
	path := worker.LogPath(l.Dir, core.Token{Run: run, Attempt: at.Attempt}, at.Step)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return api.LogPart{}, &api.Error{Code: api.CodeNotFound, Message: fmt.Sprintf(
			"attempt %d of step %q has no log here: it has not begun, or is no exec step, or another machine "+
				"executed it", at.Attempt, at.Step)}
	}
	if err != nil {
		return api.LogPart{}, err
	}
	defer f.Close()
	text := make([]byte, logPart)
	n, err := f.ReadAt(text, at.From)
	if err != nil && !errors.Is(err, io.EOF) {
		return api.LogPart{}, err
	}
	part := api.LogPart{Text: text[:n], Next: at.From + int64(n)}
	if n == 0 {
		return part, nil
	}
	marks, err := worker.LogMarks(path, at.From, part.Next)
	if err != nil {
		return api.LogPart{}, err
	}
	for _, m := range marks {
		part.Marks = append(part.Marks, api.LogMark{From: m.At, Stream: m.Stream, At: api.At(m.Time)})
	}
	return part, nil
}
