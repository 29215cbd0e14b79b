package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
)

// printed prints the output of the attempts of followed runs, between the lines about events.
//
// A line begins with its step's key, so that nothing a step prints is taken for a command of the CI system. In CI the
// output of each attempt is a group. Groups cannot be mixed: one attempt is shown while it prints, the others after it,
// and lines about other events come when the group ends.
type printed struct {
	out   io.Writer
	logs  api.LogReader
	how   string
	group grouping // nil: lines have a prefix and may be mixed
	clean bool     // the output is a terminal, which must not be controlled by steps
	raw   bool     // lines have no prefix: they are of one step
	found bool     // something was printed
	// stream is the only one that is printed: stdout or stderr. Empty: all of them.
	stream string
	// github: GitHub Actions reads the lines, so steps may give it commands, and those that fail are marked.
	github bool
	marked map[string]bool // the failed tests, and the steps with failed items, that were marked

	known  map[attemptKey]*attemptOutput // all attempts of this command, also of before it changed to another process
	above  map[string]string             // the keys of the steps that a run is a child of, by run
	open   []*attemptOutput              // open attempts in the order in which they began; in CI one is shown
	behind []string                      // lines to print when the group ends
}

// attemptKey names an attempt.
type attemptKey struct {
	run, step string
	attempt   int
}

// attemptOutput is the output of one attempt.
type attemptOutput struct {
	run, step string
	attempt   int
	label     string
	next      int64
	partial   map[string][]byte // the last line of each stream, if it has not ended
	begun     bool              // its group was begun
	ended     bool
}

// newPrinted returns nil if no output is to be printed while runs are followed.
func (a *app) newPrinted(svc api.Service) *printed {
	if !printsSteps(a.output) {
		return nil
	}
	logs, err := a.logsOf(svc)
	if err != nil {
		fmt.Fprintf(a.Err, "pawl: the output of steps cannot be read: %v\n", err)
		return nil
	}
	p := &printed{
		out: a.Out, logs: logs, how: a.output, group: groupingOf(os.Getenv), clean: isTerminal(a.Out),
		above: map[string]string{}, known: a.outputs,
	}
	if p.known == nil {
		p.known = map[attemptKey]*attemptOutput{}
		a.outputs = p.known
	}
	if a.output == outputGitHub {
		p.how, p.group, p.github, p.marked = outputFollow, githubGroups{}, true, map[string]bool{}
	}
	return p
}

// event handles an event before its line is printed. Of an attempt that ends, the rest is printed first.
func (p *printed) event(ctx context.Context, ev api.Event) {
	switch ev.Type {
	case api.EventAttemptStarted:
		if ev.Child != "" {
			p.above[ev.Child] = p.above[ev.Run] + ev.Step + "/"
			return
		}
		if p.how == outputFollow {
			p.open = append(p.open, p.outputOf(ev))
		}
	case api.EventAttemptEnded, api.EventAttemptLost:
		if p.how == outputFailed && (ev.Failure != nil || ev.Type == api.EventAttemptLost) {
			p.open = append(p.open, p.outputOf(ev))
		}
		for _, o := range p.open {
			o.ended = o.ended || o.run == ev.Run && o.step == ev.Step && o.attempt == ev.Attempt
		}
	}
	p.poll(ctx)
}

// before handles an event that was printed before. Of an attempt that had begun then, the lines that come now are
// printed.
func (p *printed) before(ctx context.Context, ev api.Event) {
	switch ev.Type {
	case api.EventAttemptStarted:
		if ev.Child != "" {
			p.above[ev.Child] = p.above[ev.Run] + ev.Step + "/"
		} else if p.how == outputFollow {
			_, printedHere := p.known[attemptKey{ev.Run, ev.Step, ev.Attempt}]
			o := p.outputOf(ev)
			if p.open = append(p.open, o); !printedHere {
				p.skip(ctx, o)
			}
		}
	case api.EventAttemptEnded, api.EventAttemptLost:
		p.open = slices.DeleteFunc(p.open, func(o *attemptOutput) bool {
			return o.run == ev.Run && o.step == ev.Step && o.attempt == ev.Attempt
		})
	}
}

// skip leaves out the whole lines that an attempt has printed until now.
func (p *printed) skip(ctx context.Context, o *attemptOutput) {
	for {
		part, err := p.logs.Log(ctx, o.run, api.LogPlace{Step: o.step, Attempt: o.attempt, From: o.next})
		if err != nil || len(part.Text) == 0 {
			return
		}
		o.next = part.Next
		for stream, text := range part.Runs() {
			if !p.wants(stream) {
				continue
			}
			if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
				o.partial[stream], text = nil, text[i+1:]
			}
			o.partial[stream] = append(o.partial[stream], text...)
		}
	}
}

// outputOf returns the output of the attempt that an event is about.
func (p *printed) outputOf(ev api.Event) *attemptOutput {
	key := attemptKey{ev.Run, ev.Step, ev.Attempt}
	if o := p.known[key]; o != nil {
		return o
	}
	o := p.newOutput(ev)
	if p.known != nil {
		p.known[key] = o
	}
	return o
}

func (p *printed) newOutput(ev api.Event) *attemptOutput {
	o := &attemptOutput{
		run: ev.Run, step: ev.Step, attempt: ev.Attempt, label: p.above[ev.Run] + ev.Step, partial: map[string][]byte{},
	}
	if ev.ItemName != "" {
		o.label += " " + ev.ItemName
	}
	if ev.Attempt > 1 {
		o.label += fmt.Sprintf(" (%d)", ev.Attempt)
	}
	return o
}

// tell prints a line about an event, or keeps it until the group ends.
func (p *printed) tell(line string) error {
	if p.group != nil && p.shown() >= 0 {
		p.behind = append(p.behind, line)
		return nil
	}
	_, err := fmt.Fprintln(p.out, line)
	return err
}

// annotation returns the line with which GitHub Actions marks an event, after a line break, empty if there is none, or
// GitHub Actions does not read the output.
func (p *printed) annotation(ev *api.Event) string {
	level := ""
	switch ev.Type {
	case "step.failed", "step.timed_out":
		level = "error"
	case "step.deadline_warning", "run.deadline_warning":
		level = "warning"
	}
	if !p.github || level == "" {
		return ""
	}
	title := ev.Step
	if ev.ItemName != "" {
		title += " " + ev.ItemName
	}
	if title == "" {
		title = "the run"
	}
	step, _, isItem := strings.Cut(ev.Run+" "+ev.Step, "[")
	if !isItem && level == "error" && p.marked[step] {
		return "" // it failed because of its items, which are marked
	}
	p.marked[step] = p.marked[step] || isItem && level == "error"
	return annotated(level, "title", title, ev.Text) + p.annotatedTests(ev)
}

// mostAnnotations is how many annotations of one kind GitHub shows of a step.
const mostAnnotations = 10

// annotatedTests returns the lines that mark the failed tests of a step, where the files of JUnit tell their source. A
// test that several steps tell of is marked once.
func (p *printed) annotatedTests(ev *api.Event) string {
	if ev.Failure == nil {
		return ""
	}
	tests, lines := api.TestsOf(ev.Failure), ""
	for i := 0; tests != nil && i < min(len(tests.Failures), mostAnnotations); i++ {
		f := &tests.Failures[i]
		line := annotated("error", "title", f.Title(), f.Message)
		if f.File != "" {
			line = annotated("error", "file", f.File, f.Title()+": "+f.Message, "line", strconv.Itoa(max(f.Line, 1)))
		}
		if !p.marked[line] {
			p.marked[line] = true
			lines += line
		}
	}
	return lines
}

// annotated writes a command of GitHub Actions that marks something, after a line break.
func annotated(level, property, value, text string, more ...string) string {
	escape := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	properties := property + "=" + escape.Replace(screen.Clean(value))
	for i := 0; i+1 < len(more); i += 2 {
		properties += "," + more[i] + "=" + escape.Replace(more[i+1])
	}
	return fmt.Sprintf("\n::%s %s::%s", level, properties, data.Replace(screen.Clean(text)))
}

// shown returns the place of the attempt whose group was begun, or -1.
func (p *printed) shown() int {
	return slices.IndexFunc(p.open, func(o *attemptOutput) bool { return o.begun })
}

// poll prints new output. Of attempts that print in groups, the first one that has something to show goes on until it
// ends.
func (p *printed) poll(ctx context.Context) {
	for i := 0; i < len(p.open); {
		if p.group != nil {
			i = max(i, p.shown())
		}
		o := p.open[i]
		p.read(ctx, o)
		switch {
		case o.ended:
			p.open = slices.Delete(p.open, i, i+1)
			delete(p.known, attemptKey{o.run, o.step, o.attempt})
			if p.group != nil && o.begun {
				p.endGroup(o)
				i = 0
			}
		case p.group != nil && o.begun:
			return
		default:
			i++
		}
	}
}

// read prints the lines of an attempt that have come. An attempt without a log is not of an exec step, or runs
// elsewhere.
func (p *printed) read(ctx context.Context, o *attemptOutput) {
	for {
		part, err := p.logs.Log(ctx, o.run, api.LogPlace{Step: o.step, Attempt: o.attempt, From: o.next})
		if err != nil || len(part.Text) == 0 {
			break
		}
		o.next, p.found = part.Next, true
		for stream, text := range part.Runs() {
			if p.wants(stream) {
				p.take(o, stream, text)
			}
		}
	}
	if o.ended {
		p.rest(o)
	}
}

// rest prints the lines that have not ended.
func (p *printed) rest(o *attemptOutput) {
	for _, stream := range slices.Sorted(maps.Keys(o.partial)) {
		if text := o.partial[stream]; len(text) > 0 && p.raw && !p.clean {
			_, _ = p.out.Write(text)
		} else if len(text) > 0 {
			p.line(o, stream, text)
		}
		o.partial[stream] = nil
	}
}

// wants reports whether the text of a stream is printed. What has no known stream counts as stdout.
func (p *printed) wants(stream string) bool {
	return p.stream == "" || p.stream == stream || p.stream == "stdout" && stream == ""
}

// take prints the lines that a text completes. A line waits for its end, so that lines of two streams do not mix.
func (p *printed) take(o *attemptOutput, stream string, text []byte) {
	for {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		o.partial[stream] = append(o.partial[stream], line...)
		if !whole {
			return
		}
		if line = o.partial[stream]; p.raw && !p.clean {
			_, _ = p.out.Write(append(line, '\n'))
		} else {
			p.line(o, stream, line)
		}
		o.partial[stream], text = o.partial[stream][:0], rest
	}
}

func (p *printed) line(o *attemptOutput, stream string, line []byte) {
	text := strings.TrimSuffix(string(line), "\r")
	if p.clean {
		text = screen.Visible(strings.ReplaceAll(text, "\t", "    "))
	}
	prefix := screen.Pad(screen.Clean(o.label), 16) + " | "
	if stream == "stderr" {
		prefix = strings.TrimSuffix(prefix, "| ") + "! "
	}
	switch {
	case p.raw:
		prefix = ""
	case p.group != nil:
		if prefix = "| "; p.github {
			prefix = ""
		}
		if !o.begun {
			fmt.Fprint(p.out, p.group.begin(o))
		}
	}
	o.begun = true
	fmt.Fprintln(p.out, prefix+text)
}

// endGroup ends the group of an attempt and prints what happened meanwhile.
func (p *printed) endGroup(o *attemptOutput) {
	fmt.Fprint(p.out, p.group.end(o))
	for _, line := range p.behind {
		fmt.Fprintln(p.out, line)
	}
	p.behind = nil
}

// grouping writes the lines with which a CI system begins and ends a group of lines.
type grouping interface {
	begin(o *attemptOutput) string
	end(o *attemptOutput) string
}

// groupingOf finds out from the environment in which CI system the command runs. nil: in none that has groups.
func groupingOf(env func(string) string) grouping {
	switch {
	case env("GITHUB_ACTIONS") == "true":
		return githubGroups{}
	case env("GITLAB_CI") == "true":
		return gitlabGroups{}
	default:
		return nil
	}
}

type githubGroups struct{}

func (githubGroups) begin(o *attemptOutput) string { return "::group::" + screen.Clean(o.label) + "\n" }

func (githubGroups) end(*attemptOutput) string { return "::endgroup::\n" }

type gitlabGroups struct{}

func (gitlabGroups) begin(o *attemptOutput) string {
	return fmt.Sprintf("\x1b[0Ksection_start:%d:%s[collapsed=true]\r\x1b[0K%s\n", clockNow().Unix(), sectionOf(o),
		screen.Clean(o.label))
}

func (gitlabGroups) end(o *attemptOutput) string {
	return fmt.Sprintf("\x1b[0Ksection_end:%d:%s\r\x1b[0K\n", clockNow().Unix(), sectionOf(o))
}

// sectionOf returns the name of a section: letters, digits and underscores.
func sectionOf(o *attemptOutput) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, fmt.Sprintf("%s_%s_%d", o.run, o.step, o.attempt))
}

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
		return nil // nobody wants it, or it was printed
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
