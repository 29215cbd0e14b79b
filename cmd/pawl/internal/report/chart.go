package report

import (
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
)

// The measures of the timeline, in pixels.
const (
	names     = 190.0 // room for the names of steps
	plot      = 900.0 // room for the time
	rowHeight = 22.0
	above     = 34.0 // room for the axis
	barHeight = 12.0
	minBar    = 2.0
	ticks     = 6
)

// chart is the timeline: rows of bars below an axis of time since the run was created.
type chart struct {
	Width, Height, Plot, Bottom float64
	Rows                        []chartRow
	Ticks                       []mark
	Limits                      []mark // the run's limits, drawn over all rows
}

type chartRow struct {
	Name, Class string
	Y, Text     float64
	Bars        []bar
	Limits      []mark
}

// bar is a span of time: an attempt, its wait, the pause before it, or a step that has no attempts.
type bar struct {
	X, Y, Width, Height float64
	Class, Title        string
}

// mark is an instant.
type mark struct {
	X, From, To  float64
	Label, Title string
}

// scale turns instants into places.
type scale struct {
	begin api.Time
	span  time.Duration
}

func (s scale) x(at api.Time) float64 {
	return names + plot*float64(at.Sub(s.begin))/float64(s.span)
}

// draw lays the timeline out. It ends with the run: limits that lie behind it are in the text only.
func draw(r *api.Run, steps []*api.Step, end api.Time) chart {
	s := scale{r.CreatedAt, max(end.Sub(r.CreatedAt), time.Millisecond) * 102 / 100}
	c := chart{
		Width: names + plot + 20, Height: above + rowHeight*float64(len(steps)) + 10, Plot: names,
		Bottom: above + rowHeight*float64(len(steps)),
	}
	for at := time.Duration(0); at <= s.span; at += tickOf(s.span) {
		c.Ticks = append(c.Ticks, mark{
			X: s.x(r.CreatedAt + api.Time(at/time.Microsecond)), From: above - 6, To: c.Bottom, Label: screen.For(at),
		})
	}
	for _, b := range r.Bounds {
		if m, ok := s.bound(b, above-6, c.Bottom); ok {
			c.Limits = append(c.Limits, m)
		}
	}
	for i, st := range steps {
		c.Rows = append(c.Rows, s.row(st, above+rowHeight*float64(i), end))
	}
	return c
}

// tickOf returns the distance of two marks of the axis: a round length of time.
func tickOf(span time.Duration) time.Duration {
	for unit := time.Millisecond; unit <= 10*time.Second; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if span <= n*unit*ticks {
				return n * unit
			}
		}
	}
	for _, length := range []time.Duration{
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour,
		2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
	} {
		if span <= length*ticks {
			return length
		}
	}
	return (span / ticks).Truncate(24*time.Hour) + 24*time.Hour
}

// bound marks an instant that bounds a step or the run, if it lies on the timeline.
func (s scale) bound(b api.Bound, from, to float64) (mark, bool) {
	at := b.At.Sub(s.begin)
	label, _, _ := strings.Cut(b.Text, ", ")
	return mark{s.x(b.At), from, to, label, b.Text + ", at " + instant(b.At)}, at >= 0 && at <= s.span
}

// row draws one step.
func (s scale) row(st *api.Step, y float64, end api.Time) chartRow {
	row := chartRow{
		Name: screen.Cut(screen.Clean(st.Step), 26), Class: classOf(string(st.Phase)), Y: y, Text: y + rowHeight*0.65,
	}
	for i := range st.Bars {
		if b := &st.Bars[i]; b.Kind != api.BarAhead {
			row.Bars = append(row.Bars, s.bar(b, y, end))
		}
	}
	for _, b := range st.Bounds {
		if m, ok := s.bound(b, y+2, y+rowHeight-2); ok {
			row.Limits = append(row.Limits, m)
		}
	}
	return row
}

// bar draws a span of time, as far as it lies on the timeline.
func (s scale) bar(b *api.Bar, y float64, end api.Time) bar {
	height, class := barHeight/3, b.Kind
	switch b.Kind {
	case api.BarRunning, api.BarWaits, api.BarStopping:
		height = barHeight
		switch {
		case b.Bad:
			class += " bad"
		case b.To == 0:
			class += " open"
		default:
			class += " good"
		}
	}
	to := min(b.To, end)
	if b.To == 0 {
		to = end
	}
	title := screen.Clean(b.Text) + ", " + screen.For(to.Sub(b.From))
	return bar{s.x(b.From), y + (rowHeight-height)/2, max(s.x(to)-s.x(b.From), minBar), height, class, title}
}
