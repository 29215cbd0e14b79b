package service

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// shortestPrefix is the least number of characters of a run id that a person must write. Less than that is probably
// a mistake, and could match any run.
const shortestPrefix = 6

// sharedPrefix is how many characters of a run id people usually see. Runs whose ids agree so far began at the same
// instant.
const sharedPrefix = 18

// find resolves a name of a run: its id, a workflow id, the unique beginning of its id, or @last. For a whole id it
// does not check that the run exists.
func (r *reads) find(ctx context.Context, name string) (core.RunID, error) {
	if name == "@last" {
		return r.last(ctx)
	}
	if name == "" {
		return core.RunID{}, api.NoName()
	}
	if id, err := core.ParseRunID(name); err == nil {
		return r.orNamed(ctx, id, name)
	}
	page, err := r.src.List(ctx, journal.Query{WorkflowID: name, Limit: 1})
	if err != nil {
		return core.RunID{}, wrap(err)
	}
	if len(page.Runs) > 0 {
		return page.Runs[0].ID, nil
	}
	low, high, ok := prefixRange(name)
	if !ok {
		return core.RunID{}, noSuchRun(name)
	}
	if len(compact(name)) < shortestPrefix {
		return core.RunID{}, &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf(
			"%q is too short for a run id: write at least %d characters, or @last", name, shortestPrefix)}
	}
	return r.findPrefix(ctx, name, low, high)
}

// orNamed returns the run of an id, or the run of a workflow id that looks like one. Whether either exists is not
// checked while no workflow id does.
func (r *reads) orNamed(ctx context.Context, id core.RunID, name string) (core.RunID, error) {
	page, err := r.src.List(ctx, journal.Query{WorkflowID: name, Limit: 1})
	if err != nil {
		return core.RunID{}, wrap(err)
	}
	if len(page.Runs) == 0 {
		return id, nil
	}
	if _, err := r.src.Entries(ctx, id, 0); !absent(err) {
		return id, nil
	}
	return page.Runs[0].ID, nil
}

// last returns the newest run that somebody started, so not a child run.
func (r *reads) last(ctx context.Context) (core.RunID, error) {
	q := journal.Query{Limit: 100}
	for {
		page, err := r.src.List(ctx, q)
		if err != nil {
			return core.RunID{}, wrap(err)
		}
		for i := range page.Runs {
			if page.Runs[i].Parent == (core.RunID{}) {
				return page.Runs[i].ID, nil
			}
		}
		if !page.More || len(page.Runs) == 0 {
			return core.RunID{}, &api.Error{
				Code:    api.CodeNotFound,
				Message: "there is no run yet; start one with pawl run FILE",
			}
		}
		q.After = page.Runs[len(page.Runs)-1].ID
	}
}

func (r *reads) findPrefix(ctx context.Context, name string, low, high core.RunID) (core.RunID, error) {
	page, err := r.src.List(ctx, journal.Query{After: high, Limit: 1000})
	if err != nil {
		return core.RunID{}, wrap(err)
	}
	var found, roots []core.RunID
	for i := range page.Runs {
		row := &page.Runs[i]
		if string(row.ID[:]) < string(low[:]) {
			continue
		}
		found = append(found, row.ID)
		if row.Parent == (core.RunID{}) {
			roots = append(roots, row.ID)
		}
	}
	if len(roots) == 1 && found[0].String()[:sharedPrefix] == found[len(found)-1].String()[:sharedPrefix] {
		return roots[0], nil // the others are child runs that began at the same instant
	}
	switch {
	case len(found) == 0:
		return core.RunID{}, noSuchRun(name)
	case len(found) > 1:
		return core.RunID{}, &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf(
			"%q is the beginning of several run ids, %s and %s among them; write more of it", name, found[0], found[1])}
	}
	return found[0], nil
}

func noSuchRun(name string) error {
	return &api.Error{
		Code:    api.CodeNotFound,
		Message: fmt.Sprintf("there is no run %q: no run id, beginning of a run id or workflow id matches", name),
		Hint:    "pawl run list shows them",
	}
}

func compact(prefix string) string { return strings.ToLower(strings.ReplaceAll(prefix, "-", "")) }

// prefixRange returns the first and the last run id that begin with the prefix.
func prefixRange(prefix string) (low, high core.RunID, ok bool) {
	text := compact(prefix)
	if text == "" || len(text) > 32 || strings.Trim(text, "0123456789abcdef") != "" {
		return low, high, false
	}
	fill := func(with string) (id core.RunID) {
		_, _ = hex.Decode(id[:], []byte(text+strings.Repeat(with, 32-len(text)))) // its characters were checked
		return id
	}
	return fill("0"), fill("f"), true
}
