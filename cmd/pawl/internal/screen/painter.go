package screen

import (
	"bytes"
	"io"
	"strconv"
)

// Painter redraws a block of lines in place, below what was printed before. Each frame is one write: what changed is
// overwritten, nothing is cleared first, so nothing flickers. Lines end with CR LF, since an open Terminal does not
// turn a bare LF into both.
type Painter struct {
	w     io.Writer
	color bool
	shown []string
	width int
}

// NewPainter paints on a terminal.
func NewPainter(w io.Writer, color bool) *Painter { return &Painter{w: w, color: color} }

// Paint shows the lines instead of those shown before. On a screen of another width the terminal has moved the old
// lines: they stay where they are, and a new block begins.
func (p *Painter) Paint(lines []Line, width int) error {
	next := make([]string, len(lines))
	for i, l := range lines {
		next[i] = l.Render(p.color)
	}
	if width != p.width {
		p.shown = p.rewrapped(width)
	}
	p.width = width
	same := len(next) == len(p.shown)
	for i := range next {
		same = same && next[i] == p.shown[i]
	}
	if same {
		return nil
	}
	var b bytes.Buffer
	b.WriteString("\x1b[?2026h\x1b[?25l") // begin an update that is shown at once, hide the cursor
	if n := len(p.shown); n > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(n) + "A")
	}
	b.WriteByte('\r')
	for i, line := range next {
		if i < len(p.shown) && p.shown[i] == line {
			b.WriteString("\r\n")
			continue
		}
		b.WriteString(line + "\x1b[K\r\n")
	}
	if len(p.shown) > len(next) {
		b.WriteString("\x1b[J")
	}
	b.WriteString("\x1b[?2026l")
	p.shown = next
	_, err := p.w.Write(b.Bytes())
	return err
}

// rewrapped guesses how many lines the block takes after the screen became narrower: terminals fold lines that no
// longer fit.
func (p *Painter) rewrapped(width int) []string {
	if p.width == 0 || width >= p.width {
		return changed(len(p.shown))
	}
	n := 0
	for _, line := range p.shown {
		n += max((Width(strip(line))+width-1)/width, 1)
	}
	return changed(n)
}

// changed returns a block of n lines that equal nothing.
func changed(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "\x00"
	}
	return out
}

// strip takes the styles out of a rendered line.
func strip(line string) string {
	var b []byte
	for i := 0; i < len(line); i++ {
		if line[i] != 0x1b {
			b = append(b, line[i])
			continue
		}
		for i < len(line) && line[i] != 'm' {
			i++
		}
	}
	return string(b)
}

// Forget leaves the shown lines where they are; the next frame begins below them.
func (p *Painter) Forget() { p.shown = nil }

// End shows the cursor again.
func (p *Painter) End() error {
	_, err := io.WriteString(p.w, "\x1b[?25h")
	return err
}
