package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/trail"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
)

// findRun resolves what a person calls a run: its id, the unique beginning of one, a workflow id, or @last.
func findRun(ctx context.Context, h histories, name string) (core.RunID, error) {
	if name == "@last" {
		return lastRun(ctx, h)
	}
	if name == "" {
		return core.RunID{}, usage("an empty name is no run: write its id, the beginning of one, its workflow id, or @last")
	}
	if _, err := core.ParseRunID(name); err == nil {
		id, err := h.Lookup(ctx, name)
		return id, noSuchRun(name, err)
	}
	page, err := h.List(ctx, journal.Query{WorkflowID: name, Limit: 1})
	if err != nil {
		return core.RunID{}, err
	}
	if len(page.Runs) > 0 {
		return page.Runs[0].ID, nil
	}
	low, high, ok := prefixRange(name)
	if !ok {
		return core.RunID{}, noSuchRun(name, journal.ErrNotFound)
	}
	if len(compact(name)) < shortestPrefix {
		return core.RunID{}, usage("%q is too short for a run id: write at least %d characters, or @last", name, shortestPrefix)
	}
	return findPrefix(ctx, h, name, low, high)
}

// shortestPrefix is how much of a run id a person writes at least: what is shorter is a slip, and hits whatever there is.
const shortestPrefix = 6

// lastRun is the newest run that a person started: child runs are not meant.
func lastRun(ctx context.Context, h histories) (core.RunID, error) {
	q := journal.Query{Limit: 100}
	for {
		page, err := h.List(ctx, q)
		if err != nil {
			return core.RunID{}, err
		}
		for _, row := range page.Runs {
			if row.Parent == (core.RunID{}) {
				return row.ID, nil
			}
		}
		if !page.More || len(page.Runs) == 0 {
			return core.RunID{}, errors.New("there is no run yet; start one with pawl run FILE")
		}
		q.After = page.Runs[len(page.Runs)-1].ID
	}
}

func findPrefix(ctx context.Context, h histories, name string, low, high core.RunID) (core.RunID, error) {
	page, err := h.List(ctx, journal.Query{After: high, Limit: 1000})
	if err != nil {
		return core.RunID{}, err
	}
	var found, roots []core.RunID
	for _, row := range page.Runs {
		if string(row.ID[:]) >= string(low[:]) {
			found = append(found, row.ID)
			if row.Parent == (core.RunID{}) {
				roots = append(roots, row.ID)
			}
		}
	}
	if len(roots) == 1 && live.Short(found[0]) == live.Short(found[len(found)-1]) {
		return roots[0], nil // the others are child runs, begun in the same instant as the run that is meant
	}
	switch {
	case len(found) == 0:
		return core.RunID{}, noSuchRun(name, journal.ErrNotFound)
	case len(found) > 1:
		return core.RunID{}, usage("%q is the beginning of several run ids, %s and %s among them; write more of it", name, found[0], found[1])
	}
	return found[0], nil
}

func noSuchRun(name string, err error) error {
	if errors.Is(err, journal.ErrNotFound) || errors.Is(err, engine.ErrNotFound) {
		return fmt.Errorf("there is no run %q: it is no run id, no beginning of one and no workflow id (pawl run list shows them)", name)
	}
	return err
}

func compact(prefix string) string { return strings.ToLower(strings.ReplaceAll(prefix, "-", "")) }

// prefixRange are the first and the last id that begin so.
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

// loadTrail reads a run with everything that happened in it.
func loadTrail(ctx context.Context, h histories, id core.RunID) (*trail.Trail, error) {
	t, _, err := loadRun(ctx, h, id)
	return t, err
}

// loadRun reads a run and the flow it runs.
func loadRun(ctx context.Context, h histories, id core.RunID) (*trail.Trail, *compiled, error) {
	entries, err := h.Entries(ctx, id)
	if err != nil {
		return nil, nil, noSuchRun(id.String(), err)
	}
	c, err := definitionOf(ctx, h, entries[0])
	if err != nil {
		return nil, nil, err
	}
	return trail.Of(id, c.def, entries), c, nil
}

// loadOurs loads a run that this command may carry on or operate on.
func loadOurs(ctx context.Context, h histories, id core.RunID) (*trail.Trail, *compiled, error) {
	t, c, err := loadRun(ctx, h, id)
	if err == nil {
		err = c.ours()
	}
	if err == nil {
		err = waitedForByOurs(ctx, h, t.Run)
	}
	return t, c, err
}

// waitedForByOurs refuses a run whose end a Go program's run waits for: its parent, or a schedule. That one could not be
// told here, so the engine sets such a run aside as well.
func waitedForByOurs(ctx context.Context, h histories, r *core.Run) error {
	if r.Parent.Run != (core.RunID{}) {
		if _, _, err := loadOurs(ctx, h, r.Parent.Run); errors.As(err, new(*theirsError)) {
			return fmt.Errorf("run %s is a child of run %s: %w", live.Short(r.ID), live.Short(r.Parent.Run), err)
		}
	}
	if r.Notify == "" {
		return nil
	}
	id, err := h.Lookup(ctx, r.Notify)
	if err == nil {
		_, _, err = loadOurs(ctx, h, id)
	}
	if errors.As(err, new(*theirsError)) {
		return fmt.Errorf("the run %q waits for the end of run %s: %w", r.Notify, live.Short(r.ID), err)
	}
	return nil
}

// definitionOf compiles the flow of the run that an entry, its first one, creates.
func definitionOf(ctx context.Context, h histories, first core.Entry) (*compiled, error) {
	for _, rec := range first.Records {
		if created, ok := rec.(core.RunCreated); ok {
			d, err := h.Definition(ctx, created.Definition)
			if err != nil {
				return nil, fmt.Errorf("run %s: its workflow %q: %w", first.Run, created.Workflow, err)
			}
			return readShown(d)
		}
	}
	return nil, fmt.Errorf("run %s: its history does not begin with its start", first.Run)
}

// findStep resolves a step's key, with the nearest one where there is none of that name.
func findStep(t *trail.Trail, key string) (*core.Step, error) {
	if s, ok := t.Find(key); ok {
		return s, nil
	}
	for _, spec := range trail.Specs(t.Run.Attached()) {
		switch {
		case spec.Name != key || spec.Hook:
		case t.Run.Phase.Closed():
			return nil, fmt.Errorf("step %q of run %s never began", key, live.Short(t.Run.ID))
		default:
			return nil, fmt.Errorf("step %q of run %s has not begun yet; wait until what it needs has ended (pawl run show %s)",
				key, live.Short(t.Run.ID), live.Short(t.Run.ID))
		}
	}
	return nil, fmt.Errorf("run %s has no step %q; %s", live.Short(t.Run.ID), key, nearestStep(key, t.Keys()))
}

func nearestStep(key string, keys []string) string {
	if len(keys) == 0 {
		return "no step has begun yet"
	}
	if len(keys) > 20 {
		keys = keys[:20]
	}
	return nearestOr(key, keys, "there are")
}
