package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// keptFirings is how many runs of a schedule that have ended are still shown.
const keptFirings = 3

// isSchedule reports whether a followed run is a schedule.
func (f *follower) isSchedule(run string) bool {
	r := f.runs[run]
	return r != nil && r.Workflow == schedule.Workflow
}

// turned handles a schedule's turn: the runs that it has started are followed, too.
func (f *follower) turned(ctx context.Context, ev *api.Event) error {
	s, err := schedule.Decode(ev.Data)
	if err != nil {
		return nil //nolint:nilerr // a form that this version does not know has no runs that it knows
	}
	before := f.schedules[s.Name]
	f.schedules[s.Name] = s
	for _, r := range s.Open {
		id := schedule.RunID(s.Name, r.Firing)
		if !f.firings[id] {
			f.firings[id] = true
			f.find(ctx, id)
		}
	}
	if f.telling != tellPlain {
		return nil
	}
	text := turnText(before, s, f.now())
	if text == "" {
		return nil
	}
	if f.printed != nil {
		return f.printed.tell(text)
	}
	_, err = fmt.Fprintln(f.Out, text)
	return err
}

// find looks for the run of a firing. In another partition of the database it may begin a moment later.
func (f *follower) find(ctx context.Context, workflowID string) {
	go func() {
		defer f.terminal.RestoreOnPanic()
		for {
			r, err := f.svc.Run(ctx, workflowID)
			if api.CodeOf(err) != api.CodeNotFound {
				if err == nil {
					_ = f.send(ctx, update{run: r.Run, firing: true, snapshot: r})
				}
				return
			}
			select {
			case <-time.After(frameEvery):
			case <-ctx.Done():
				return
			}
		}
	}()
}

// began follows the run of a firing. Of those that have ended only the last ones stay.
func (f *follower) began(ctx context.Context, id string) {
	if f.watched[id] {
		return
	}
	f.roots, f.several = append(f.roots, id), true
	f.watch(ctx, id)
	var over []string
	for _, root := range f.roots {
		if f.over[root] && !f.isSchedule(root) {
			over = append(over, root)
		}
	}
	for len(over) > keptFirings {
		f.forget(over[0])
		over = over[1:]
	}
}

// turnText describes what a turn has changed, or returns "" if nothing is worth a line.
func turnText(before, s *schedule.State, now time.Time) string {
	var parts []string
	if before == nil {
		before = &schedule.State{}
	}
	if s.Fired > before.Fired {
		parts = append(parts, "fired for "+s.Last.Format(time.RFC3339))
	}
	if n := s.Missed - before.Missed; n > 0 {
		last := s.Recent[len(s.Recent)-1]
		parts = append(parts, fmt.Sprintf("missed %s, %s", count(n, "firing"), missedReason(last.Reason, last.Note)))
	}
	switch {
	case s.Paused != nil && before.Paused == nil:
		parts = append(parts, "paused: "+s.Paused.Reason)
	case s.Paused == nil && before.Paused != nil:
		parts = append(parts, "resumed")
	}
	if len(parts) == 0 {
		return ""
	}
	if table, err := s.Table(); err == nil && s.Paused == nil {
		if coming := s.Coming(table, now, 1); len(coming) > 0 {
			parts = append(parts, "next "+coming[0].Format(time.RFC3339))
		}
	}
	return screen.Clean(fmt.Sprintf("schedule %s  %s", s.Name, strings.Join(parts, "; ")))
}

// toldByTurns reports whether the lines of a schedule's turns already show an event.
func (f *follower) toldByTurns(ev *api.Event) bool {
	return f.isSchedule(ev.Run) && f.telling == tellPlain && !slices.Contains([]string{
		"run.cancelled", "run.terminated", "run.timed_out", "run.succeeded", "run.failed",
	}, ev.Type)
}
