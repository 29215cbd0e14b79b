package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/trail"
	"github.com/pawl-dev/pawl/internal/core"
)

// conclude tells how the followed runs ended.
func (f *follower) conclude() {
	for _, id := range f.roots {
		r := f.runs[id]
		if r == nil || !r.Run.Phase.Closed() || r.Run.Next != (core.RunID{}) {
			continue
		}
		switch f.telling {
		case tellJSON:
		case tellQuiet:
			if r.Run.Phase == core.RunSucceeded {
				if out := indented(r.Run.Output); out != "" {
					fmt.Fprintln(f.Out, out)
				}
			} else {
				fmt.Fprintf(f.Err, "pawl: %s\n", summary(r.Trail))
			}
		default:
			f.lines(f.ending(r.Trail, wordsOf(context.Background(), f.h, r.Trail, f.bundles[id])))
		}
	}
}

// ending is the last word about a run.
func (a *app) ending(t *trail.Trail, w *live.Words) []screen.Line {
	r := t.Run
	style, glyph := screen.Bad, "✗"
	switch r.Phase {
	case core.RunSucceeded:
		style, glyph = screen.Good, "✓"
	case core.RunCancelled, core.RunTerminated:
		style, glyph = screen.Warn, "⊘"
	default:
	}
	lines := []screen.Line{screen.Line{}.Add(style, glyph+" ").Add(screen.Plain, totals(t))}
	for _, line := range screen.Wrap(t.RunWhy(), a.textWidth()-2) {
		lines = append(lines, screen.Line{}.Add(style, "  "+line))
	}
	label := func(name, text string) {
		lines = append(lines, screen.Line{}.Add(screen.Dim, "  "+screen.Pad(name, 15)).Add(screen.Plain, text))
	}
	for i, line := range strings.Split(indented(r.Output), "\n") {
		switch {
		case i > 0:
			label("", line)
		case line != "":
			label("output", line)
		}
	}
	if w != nil {
		label("in "+w.System, strings.TrimSuffix(w.Status+": "+w.Message, ": "))
	}
	id := live.Short(r.ID)
	switch r.Phase {
	case core.RunFailed, core.RunTimedOut:
		label("every attempt", "pawl run show "+id)
		label("try again", "pawl run retry "+id+" --follow")
	case core.RunCancelled, core.RunTerminated:
		label("start afresh", "pawl run restart "+id+" --follow")
	default:
	}
	return lines
}

// textWidth is the room for text; a pipe has no edge.
func (a *app) textWidth() int {
	if !isTerminal(a.Out) {
		return 1 << 20
	}
	return a.width()
}

// summary says in one sentence how a closed run ended.
func summary(t *trail.Trail) string {
	if why := t.RunWhy(); why != "" {
		return totals(t) + ": " + why
	}
	return totals(t)
}

func totals(t *trail.Trail) string {
	r := t.Run
	text := fmt.Sprintf("%s %s %s in %s", screen.Clean(r.Workflow), live.Short(r.ID), strings.ReplaceAll(r.Phase.String(), "_", " "), screen.For(r.EndedAt.Sub(r.CreatedAt)))
	if n := t.Totals(); n.Attempts > 0 {
		text += fmt.Sprintf(", %s in %s", count(n.Attempts, "attempt"), count(n.Steps, "step"))
	}
	return text
}

func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// indented writes JSON for people: in one line where it is short. Nothing where there is none.
func indented(payload []byte) string {
	if len(payload) == 0 || string(payload) == "null" {
		return ""
	}
	var b bytes.Buffer
	if len(payload) > 60 && json.Indent(&b, payload, "", "  ") == nil {
		return b.String()
	}
	return screen.Clean(string(payload))
}

// leave says how the runs that were left go on.
func (f *follower) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, id := range f.roots {
		var t *trail.Trail
		if r := f.runs[id]; r != nil {
			t = r.Trail
		} else if read, err := loadTrail(ctx, f.h, id); err == nil { // it was left before anything of it was told
			t = read
		}
		if f.over[id] || (t != nil && t.Run.Phase.Closed()) {
			continue
		}
		name, on := "", "pawl resume "+live.Short(id)
		if t != nil {
			name, on = " ("+screen.Clean(t.Run.Workflow)+")", howOn(t.Run)
		}
		if f.m == nil {
			fmt.Fprintf(f.Err, "pawl: run %s%s is not ended; it goes on where it runs\n", id, name)
			continue
		}
		fmt.Fprintf(f.Err, "pawl: left run %s%s as it is, nothing is lost; it goes on with: %s\n", id, name, on)
	}
}
