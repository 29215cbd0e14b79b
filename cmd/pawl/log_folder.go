package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker"
)

// logPart bounds one part of a log, in bytes.
const logPart = 256 << 10

// logFolder reads the logs of attempts that were executed on this machine.
type logFolder struct {
	dir string
	svc api.Service // finds runs that are not named by their id
}

// Log implements api.LogReader.
func (l logFolder) Log(ctx context.Context, name string, at api.LogPlace) (api.LogPart, error) {
	run, err := core.ParseRunID(name)
	if err != nil {
		r, err := l.svc.Run(ctx, name)
		if err != nil {
			return api.LogPart{}, err
		}
		if run, err = core.ParseRunID(r.Run); err != nil {
			return api.LogPart{}, err
		}
	}
	if at.From < 0 {
		return api.LogPart{}, &api.Error{Code: api.CodeInvalid, Message: "log: a place is a number of bytes, or 0"}
	}
	f, err := os.Open(worker.LogPath(l.dir, core.Token{Run: run, Attempt: at.Attempt}, at.Step))
	if errors.Is(err, fs.ErrNotExist) {
		return api.LogPart{}, &api.Error{Code: api.CodeNotFound, Message: fmt.Sprintf(
			"attempt %d of step %q has no log here: attempts of exec steps have logs, on the machine that "+
				"executed them", at.Attempt, at.Step)}
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
	return api.LogPart{Text: text[:n], Next: at.From + int64(n)}, nil
}

// logsOf returns what reads the logs of a service's attempts. The process that holds a file executes on this machine,
// so its logs are beside the file.
func (a *app) logsOf(svc api.Service) (api.LogReader, error) {
	if a.server != "" {
		return a.connect()
	}
	p, err := a.where()
	if err != nil {
		return nil, err
	}
	return logFolder{p.logDir(), svc}, nil
}
