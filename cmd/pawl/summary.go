package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/report"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
)

// conclude prints how the followed runs ended.
func (f *follower) conclude() {
	for _, id := range f.roots {
		r := f.runs[id]
		if r == nil || !r.Phase.Closed() || r.Next != "" {
			continue
		}
		switch f.telling {
		case tellJSON:
		case tellQuiet:
			if r.Phase == api.RunSucceeded {
				if out := indented(r.Output); out != "" {
					fmt.Fprintln(f.Out, out)
				}
			} else {
				fmt.Fprintf(f.Err, "pawl: %s\n", summary(r))
			}
		default:
			f.lines(f.ending(r, false))
			f.summarise(r)
		}
	}
}

// summarise adds a run to the summary of a job of GitHub Actions, as Markdown.
func (f *follower) summarise(r *api.Run) {
	path := os.Getenv("GITHUB_STEP_SUMMARY")
	if f.output != outputGitHub || path == "" {
		return
	}
	cell := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;")
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", cell.Replace(totals(r)))
	if why := screen.Clean(r.Why); why != "" {
		fmt.Fprintf(&b, "%s\n\n", cell.Replace(why))
	}
	b.WriteString("| step | | attempts | took | why |\n|---|---|---|---|---|\n")
	for _, s := range report.Rows(r) {
		name := strings.TrimSpace(s.Step + " " + s.ItemName)
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s |\n", cell.Replace(screen.Clean(name)), s.Phase, len(s.Attempts),
			screen.For(s.EndedAt.Sub(s.ScheduledAt)), cell.Replace(screen.Clean(s.Why)))
	}
	names, why := report.NotBegun(r)
	for _, name := range names {
		fmt.Fprintf(&b, "| %s | skipped | 0 | - | %s |\n", cell.Replace(screen.Clean(name)), why)
	}
	for _, s := range r.Steps {
		results := s.Tests()
		if results == nil || s.Superseded {
			continue
		}
		fmt.Fprintf(&b, "\n**%s**: %s\n", cell.Replace(screen.Clean(strings.TrimSpace(s.Step+" "+s.ItemName))), results)
		for _, f := range results.Failures {
			fmt.Fprintf(&b, "- %s: %s\n", cell.Replace(screen.Clean(f.Title())), cell.Replace(screen.Clean(f.Message)))
		}
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // the job's own file
	if err == nil {
		_, err = file.WriteString(b.String() + "\n")
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		fmt.Fprintf(f.Err, "pawl: the summary of the job: %v\n", err)
	}
}

// maxOutputLines is how many lines of a run's output its end shows.
const maxOutputLines = 40

// ending formats the last lines about a run; with full, its whole output.
func (a *app) ending(r *api.Run, full bool) []screen.Line {
	style, glyph := screen.Bad, "✗"
	switch r.Phase {
	case api.RunSucceeded:
		style, glyph = screen.Good, "✓"
	case api.RunCancelled, api.RunTerminated:
		style, glyph = screen.Warn, "⊘"
	default:
	}
	lines := []screen.Line{screen.Line{}.Add(style, glyph+" ").Add(screen.Plain, totals(r))}
	for _, line := range screen.Wrap(screen.Clean(r.Why), a.textWidth()-2) {
		lines = append(lines, screen.Line{}.Add(style, "  "+line))
	}
	lines = append(lines, a.lastPrinted(r)...)
	label := func(name, text string) {
		lines = append(lines, screen.Line{}.Add(screen.Dim, "  "+screen.Pad(name, 15)).Add(screen.Plain, text))
	}
	output := strings.Split(indented(r.Output), "\n")
	if n := len(output) - maxOutputLines; n > 0 && !full {
		output = append(output[:maxOutputLines], fmt.Sprintf("… %s (pawl run show %s --full)",
			count(n, "more line"), live.Short(r.Run)))
	}
	for i, line := range output {
		switch {
		case i > 0:
			label("", line)
		case line != "":
			label("output", line)
		}
	}
	if w := r.Dialect; w != nil {
		label("in "+w.System, strings.TrimSuffix(w.Status+": "+w.Message, ": "))
	}
	id := live.Short(r.Run)
	switch r.Phase {
	case api.RunFailed, api.RunTimedOut:
		label("every attempt", "pawl run show "+id)
		if slices.ContainsFunc(r.Steps, func(s *api.Step) bool { return s.Type == "exec" }) {
			label("all output", "pawl run logs "+id)
		}
	default:
	}
	hook := slices.IndexFunc(r.Steps, failedHook)
	switch {
	case r.Phase == api.RunSucceeded:
	case r.Phase != api.RunCancelled && r.Phase != api.RunTerminated && r.Retryable:
		label("try again", "pawl run retry "+id+" --follow")
	default:
		label("start afresh", "pawl run restart "+id+" --follow")
	}
	if hook >= 0 && r.Phase != api.RunTerminated {
		label("the hook again", "pawl step retry "+id+" "+r.Steps[hook].Step+" --follow")
	}
	return lines
}

// textWidth returns the room for text; a pipe has no edge.
func (a *app) textWidth() int {
	if !isTerminal(a.Out) {
		return 1 << 20
	}
	return a.width()
}

// summary describes in one sentence how a closed run ended.
func summary(r *api.Run) string {
	if why := screen.Clean(r.Why); why != "" {
		return totals(r) + ": " + why
	}
	return totals(r)
}

// totals describes how a run ended, how long it took, and how many attempts its steps needed. Hooks are not counted,
// and a loop is one step, as where the run is shown.
func totals(r *api.Run) string {
	text := fmt.Sprintf("%s %s %s in %s", screen.Clean(r.Workflow), live.Short(r.Run),
		strings.ReplaceAll(string(r.Phase), "_", " "), screen.For(r.EndedAt.Sub(r.CreatedAt)))
	text += toleratedItems(r)
	steps, attempts, lost := 0, 0, 0
	for _, s := range r.Steps {
		if s.Superseded || s.Hook {
			continue
		}
		attempts, lost = attempts+len(s.Attempts), lost+live.LostOf(s)
		if s.Group == "" {
			steps++
		}
	}
	if attempts > 0 {
		text += fmt.Sprintf(", %s in %s", live.Attempts(attempts, lost), count(steps, "step"))
	}
	var hooks []string
	for _, s := range r.Steps {
		if failedHook(s) {
			hooks = append(hooks, s.Step+" "+strings.ReplaceAll(string(s.Phase), "_", " "))
		}
	}
	if len(hooks) > 0 {
		text += "; hook " + strings.Join(hooks, ", ")
	}
	return text
}

// toleratedItems returns how many items of a run failed without making it fail, with the names of the first ones.
func toleratedItems(r *api.Run) string {
	bad, all, loops := 0, 0, map[string]bool{}
	for _, s := range r.Steps {
		if s.FailedItems > 0 && s.Phase == api.StepSucceeded && !s.Superseded {
			bad, all = bad+s.FailedItems, all+s.Items
			loops[s.Step] = true
		}
	}
	if bad == 0 {
		return ""
	}
	const most = 3
	var names []string
	for _, s := range r.Steps {
		failed := s.Phase == api.StepFailed || s.Phase == api.StepTimedOut
		if failed && loops[s.Group] && !s.Superseded && len(names) < most {
			names = append(names, screen.Clean(cmp.Or(s.ItemName, s.Step)))
		}
	}
	text := fmt.Sprintf(", %d of %s failed", bad, count(all, "item"))
	if len(names) == 0 {
		return text
	}
	text += map[bool]string{true: " (item ", false: " (items "}[bad == 1] + strings.Join(names, "; ")
	if more := bad - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ")"
}

// failedHook reports whether a step is a hook that did not do what it was for.
func failedHook(s *api.Step) bool {
	bad := s.Phase == api.StepFailed || s.Phase == api.StepTimedOut || s.Phase == api.StepCancelled
	return s.Hook && bad && !s.Superseded
}

func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// indented writes JSON for people: on one line if it is short. Nothing is written if there is none.
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

// leftWork describes how the running attempts of a run and its children go on after the command leaves it.
func (f *follower) leftWork(id string) string {
	running := 0
	for _, r := range f.runs {
		if r.Run != id && !f.below(r, id) {
			continue
		}
		for _, s := range r.Steps {
			if s.Phase == api.StepRunning {
				running++
			}
		}
	}
	if running == 0 {
		return ""
	}
	return fmt.Sprintf(": %s that %s now will be stopped and made again; what has ended stays as it is",
		count(running, "attempt"), map[bool]string{true: "runs", false: "run"}[running == 1])
}

// below reports whether a run is a child of another one, or a child's child.
func (f *follower) below(r *api.Run, id string) bool {
	for r != nil && r.Parent != "" {
		if r.Parent == id {
			return true
		}
		r = f.runs[r.Parent]
	}
	return false
}

// leave prints how the remaining runs go on.
func (f *follower) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, id := range f.roots {
		r := f.runs[id]
		if read, err := f.svc.Run(ctx, id); err == nil {
			r = read
			f.runs[id] = r
		}
		if f.over[id] || (r != nil && r.Phase.Closed()) {
			continue
		}
		name, on := "", "pawl resume "+live.Short(id)
		if r != nil {
			name, on = " ("+screen.Clean(r.Workflow)+")", howOn(r)
		}
		if f.m == nil {
			fmt.Fprintf(f.Err, "pawl: run %s%s goes on in the process that executes it\n", id, name)
			continue
		}
		fmt.Fprintf(f.Err, "pawl: left run %s%s as it is%s; it goes on with: %s\n", id, name, f.leftWork(id), on)
	}
}
