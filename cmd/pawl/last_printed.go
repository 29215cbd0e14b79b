package main

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
)

// How much of the output of failed steps the end of a run shows.
const (
	lastLines = 12 // the most lines of one step
	lastSteps = 3
)

// blamed returns the steps that the reason of a run's end names; if it names none, all of them.
func blamed(r *api.Run) []*api.Step {
	var out []*api.Step
	for _, s := range r.Steps {
		if strings.Contains(r.Why, fmt.Sprintf("step %q", s.Step)) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return r.Steps
	}
	return out
}

// lastPrinted returns the last lines that the failed steps of a run printed. They are in the run's history, so they
// are there wherever the steps ran.
func (a *app) lastPrinted(r *api.Run) []screen.Line {
	if a.output == outputNone || printsSteps(a.output) {
		return nil // it was printed, or need not be
	}
	if r.Phase != api.RunFailed && r.Phase != api.RunTimedOut {
		return nil
	}
	var out []screen.Line
	steps := 0
	for _, s := range blamed(r) {
		text := live.Printed(s)
		if text == "" {
			continue
		}
		if steps++; steps > lastSteps {
			out = append(out, screen.Line{}.Add(screen.Dim, "  … more steps failed"))
			break
		}
		lines := strings.Split(text, "\n")
		which := "what " + screen.Clean(s.Step) + " printed:"
		if n := len(lines) - lastLines; n > 0 {
			which = fmt.Sprintf("what %s printed, its last %d lines:", screen.Clean(s.Step), lastLines)
			lines = lines[n:]
		}
		out = append(out, screen.Line{}.Add(screen.Dim, "  "+which))
		for _, line := range lines {
			out = append(out, screen.Line{}.Add(screen.Plain, "  | "+screen.Visible(
				strings.ReplaceAll(line, "\t", "    "))).Cut(a.textWidth()))
		}
	}
	return out
}
