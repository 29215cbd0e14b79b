// Package timeline draws attempts, the delays between them and the deadlines that bound them against a time axis.
package timeline

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
)

// Row is one attempt. Instants are offsets from the step's first scheduling.
type Row struct {
	Number  int
	At      time.Duration  // ready for a worker
	Started *time.Duration // nil: never started
	Ended   *time.Duration // nil if it does not end by itself
	End     string         // outcome of the attempt
	Never   bool           // the next attempt, which can never start
}

// Mark is a deadline: a vertical line.
type Mark struct {
	Name string
	At   time.Duration
}

// Plot is the picture to draw.
type Plot struct {
	Rows  []Row
	Marks []Mark
	Until time.Duration // the step's end; 0 if there is none
}

const (
	labelWidth = 15 // "attempt  starts"
	noteWidth  = 26
	minPlot    = 16
)

// canvas maps offsets to columns.
type canvas struct {
	width int
	whole time.Duration
}

func (c canvas) column(at time.Duration) int {
	return min(max(int(float64(at)/float64(c.whole)*float64(c.width-1)+0.5), 0), c.width-1)
}

// Draw returns the drawing, at most width cells wide.
func (p Plot) Draw(width int) []screen.Line {
	marks := slices.Clone(p.Marks)
	slices.SortStableFunc(marks, func(a, b Mark) int { return int(a.At - b.At) })
	c := canvas{width: max(width-labelWidth-noteWidth-3, minPlot), whole: p.horizon(marks)}
	lines := []screen.Line{c.axis()}
	var off []Mark
	marks = slices.DeleteFunc(marks, func(m Mark) bool {
		if m.At > c.whole {
			off = append(off, m)
		}
		return m.At > c.whole
	})
	ready := time.Duration(0)
	for i, r := range p.Rows {
		if i > 0 && p.Rows[i-1].Ended != nil {
			ready = *p.Rows[i-1].Ended
		} else {
			ready = r.At
		}
		lines = append(lines, c.row(r, ready, marks))
	}
	for i := len(marks) - 1; i >= 0; i-- {
		lines = append(lines, c.mark(marks[i], marks[:i]))
	}
	for _, m := range off {
		lines = append(lines, screen.Line{}.Add(screen.Dim,
			fmt.Sprintf("  %s at %s lies beyond the right edge: it is never reached", m.Name, screen.For(m.At))))
	}
	for i := range lines {
		lines[i] = lines[i].Cut(width)
	}
	return lines
}

// horizon returns the span of the axis. A deadline far beyond the last attempt would squeeze all attempts into one
// column: it is written below the drawing instead.
func (p Plot) horizon(marks []Mark) time.Duration {
	whole := p.Until
	for _, r := range p.Rows {
		whole = max(whole, r.At)
		if r.Ended != nil {
			whole = max(whole, *r.Ended)
		}
	}
	last := whole
	for _, m := range marks {
		if m.At <= 3*last || last == 0 {
			whole = max(whole, m.At)
		}
	}
	return max(whole, time.Millisecond)
}

// axis writes round instants above their columns.
func (c canvas) axis() screen.Line {
	text := []rune(strings.Repeat(" ", c.width+noteWidth))
	next := 0
	for at, step := time.Duration(0), c.step(); at >= 0 && at <= c.whole; at += step { // a sum may overflow
		col := c.column(at)
		if col < next {
			continue
		}
		label := screen.For(at)
		copy(text[col:], []rune(label))
		next = col + len(label) + 2
	}
	labels := screen.Pad("attempt  starts", labelWidth)
	return screen.Line{}.Add(screen.Dim, labels+"  "+strings.TrimRight(string(text), " "))
}

// step returns a round span that gives an axis about a label every twelve columns.
func (c canvas) step() time.Duration {
	wanted := c.whole / time.Duration(max(c.width/12, 1))
	for _, unit := range []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		for _, n := range []time.Duration{1, 2, 5, 10, 15, 20, 30, 50, 100, 200, 500} {
			if n*unit >= wanted && (unit == time.Millisecond || n <= 30) {
				return n * unit
			}
		}
	}
	return max(wanted.Truncate(24*time.Hour), 24*time.Hour)
}

func (c canvas) row(r Row, ready time.Duration, marks []Mark) screen.Line {
	cells := make([]screen.Span, c.width)
	for i := range cells {
		cells[i] = screen.Span{Text: " "}
	}
	for _, m := range marks {
		cells[c.column(m.At)] = screen.Span{Text: "│", Style: screen.Warn}
	}
	put := func(from, to time.Duration, text string, style screen.Style) {
		for i := c.column(from); i <= c.column(to); i++ {
			cells[i] = screen.Span{Text: text, Style: style}
		}
	}
	starts, note, style := screen.For(r.At), r.End, screen.Bad
	if ready < r.At {
		put(ready, r.At, "·", screen.Dim)
	}
	switch {
	case r.Never:
		starts, note = "never", "cannot start"
		put(min(r.At, c.whole), min(r.At, c.whole), "×", screen.Bad)
	case r.Started == nil:
		put(r.At, value(r.Ended, c.whole), "░", screen.Dim)
	default:
		if r.End == "ok" {
			style = screen.Good
		}
		put(r.At, *r.Started, "░", screen.Dim) // time in the queue
		put(*r.Started, value(r.Ended, c.whole), "█", style)
	}
	if r.Ended == nil && !r.Never {
		note = "never ends"
	}
	line := screen.T(fmt.Sprintf("%7d  %6s", r.Number, starts)).Pad(labelWidth).Add(screen.Plain, "  ")
	for _, cell := range cells {
		line = append(line, cell)
	}
	return merge(line.Add(screen.Plain, " ").Add(style, note))
}

func value(d *time.Duration, other time.Duration) time.Duration {
	if d == nil {
		return other
	}
	return *d
}

// mark names a vertical line below the rows; the lines to its left go on.
func (c canvas) mark(m Mark, left []Mark) screen.Line {
	line := screen.T(strings.Repeat(" ", labelWidth+2))
	col, at := 0, c.column(m.At)
	for _, l := range left {
		if x := c.column(l.At); x < at && x >= col {
			line = line.Add(screen.Plain, strings.Repeat(" ", x-col)).Add(screen.Warn, "│")
			col = x + 1
		}
	}
	line = line.Add(screen.Plain, strings.Repeat(" ", at-col))
	return merge(line.Add(screen.Warn, "└ "+m.Name+" "+screen.For(m.At)))
}

// merge joins neighbours of one style.
func merge(l screen.Line) screen.Line {
	var out screen.Line
	for _, s := range l {
		if n := len(out); n > 0 && out[n-1].Style == s.Style {
			out[n-1].Text += s.Text
			continue
		}
		out = append(out, s)
	}
	return out
}
