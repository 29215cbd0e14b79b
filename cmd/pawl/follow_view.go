package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
)

// openTerminal prepares the terminal for the live view. One that cannot be prepared gets a line for each event.
func (f *follower) openTerminal() {
	out, ok := f.Out.(*os.File)
	if !ok {
		f.telling = tellPlain
		return
	}
	in := f.In
	if !isTerminal(in) {
		in = nil
	}
	terminal, err := screen.OpenTerminal(in, out, f.color(out))
	if err != nil {
		f.telling = tellPlain
		return
	}
	f.terminal, f.lineReader = terminal, f.newLineReader(f.svc)
}

// paint draws the live view as it is now.
func (f *follower) paint() error {
	if f.terminal == nil {
		return nil
	}
	width, height := f.terminal.Size()
	return f.terminal.Paint(live.Frame(f.view(width-1), api.At(f.now()), width-1, height-1))
}

// view returns the view to draw on a screen of that width.
func (f *follower) view(width int) live.View {
	v := live.View{Children: f.runs, Stalled: f.stalled, Others: f.others, Note: f.note}
	if f.lineReader != nil {
		v.Printed = f.lineReader.shown
	}
	for _, id := range f.roots {
		if r := f.runs[id]; r != nil {
			v.Runs = append(v.Runs, r)
		}
	}
	if f.asking {
		v.Question = question(len(v.Runs), width, f.m == nil)
	}
	return v
}

// question asks what to do with a number of runs. On a narrow screen it is shorter, so that each answer can be read.
// Runs that another process carries go on when they are left.
func question(runs, width int, joined bool) screen.Line {
	what, it := "the run", "it"
	if runs > 1 {
		what, it = "all of these runs", "them"
	}
	start := screen.Line{}.Add(screen.Reverse, " Stop? ")
	later := " for later (pawl resume)"
	if joined {
		later = " running"
	}
	long := start.Add(screen.Plain, "  c cancel "+what+"   l leave "+it+later+"   g go on")
	if long.Width() <= width {
		return long
	}
	return start.Add(screen.Plain, "  c cancel   l leave   g go on")
}

// keptItems are the items of a loop whose results a rerun keeps: one line tells of all of them.
type keptItems struct {
	loop      string
	n, failed int
	shown     api.Event // one of them that succeeded, if there is one
}

// add counts an item.
func (k *keptItems) add(loop string, ev api.Event) {
	failed := ev.Phase != string(api.StepSucceeded)
	if k.n == 0 || !failed {
		k.shown = ev
	}
	k.loop = loop
	k.n++
	if failed {
		k.failed++
	}
}

// event returns the event that tells of all of them.
func (k *keptItems) event() api.Event {
	ev := k.shown
	if k.n == 1 {
		return ev
	}
	ev.Step, ev.Text = k.loop, fmt.Sprintf("%d items are %s", k.n, live.Kept)
	if k.failed > 0 {
		ev.Text += fmt.Sprintf(", %d of them did not succeed", k.failed)
	}
	return ev
}

// tellPlainly prints the line of an event.
func (f *follower) tellPlainly(ev api.Event) error {
	loop, _, isItem := strings.Cut(ev.Step, "[")
	isItem = isItem && ev.Why == live.Kept
	var err error
	if k := f.kept; k.n > 0 && (!isItem || k.loop != loop || k.shown.Run != ev.Run) {
		f.kept = keptItems{}
		err = f.tellLine(k.event())
	}
	if isItem {
		f.kept.add(loop, ev)
		return err
	}
	return errors.Join(err, f.tellLine(ev))
}

// tellLine prints an event as one line.
func (f *follower) tellLine(ev api.Event) error {
	line := live.Plain(ev)
	if f.several {
		line = live.Short(ev.Run) + "  " + line
	}
	switch {
	case f.printed == nil:
		_, err := fmt.Fprintln(f.Out, line)
		return err
	case f.printed.above[ev.Run] != "": // a child run, of which the lines that its steps print are enough
		return nil
	default:
		return f.printed.tell(line + f.printed.annotation(&ev))
	}
}
