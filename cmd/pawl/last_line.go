package main

import (
	"bytes"
	"context"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
)

const (
	linesEvery  = 300 * time.Millisecond // how often the live view reads what steps print
	linesAtOnce = 32                     // the most attempts that are read
	partsAtOnce = 4                      // the most parts of each: the end of a long log is reached after some rounds
	longestLine = 4 << 10                // the beginning of a longer one is shown
)

// printing is how far the live view has read what one attempt prints.
type printing struct {
	attempt int
	next    int64
	last    []byte // the last line that is not blank
	open    []byte // the line that follows it and has not ended yet
}

// lineReader reads the last line of what each running step prints, for the live view. One round at a time reads, in a
// goroutine: the logs may be on another machine.
type lineReader struct {
	logs    api.LogReader
	reading bool
	read    time.Time // start of the last round
	known   map[live.StepOf]*printing
	shown   map[live.StepOf]string
}

// newLineReader returns nil if the output of steps is not wanted, or cannot be read.
func (a *app) newLineReader(svc api.Service) *lineReader {
	if a.output == outputNone {
		return nil
	}
	logs, err := a.logsOf(svc)
	if err != nil {
		return nil
	}
	return &lineReader{logs: logs, known: map[live.StepOf]*printing{}}
}

// readLines begins a round, if it is time for one.
func (f *follower) readLines(ctx context.Context) {
	l := f.lineReader
	if l == nil || l.reading || time.Since(l.read) < linesEvery {
		return
	}
	attempts := map[live.StepOf]int{}
	for id, r := range f.runs {
		if f.over[id] {
			continue
		}
		for _, s := range r.Steps {
			if s.Phase == api.StepRunning && s.Type == "exec" && len(attempts) < linesAtOnce {
				attempts[live.StepOf{Run: id, Step: s.Step}] = s.Attempt
			}
		}
	}
	if len(attempts) == 0 && len(l.shown) == 0 {
		return
	}
	l.reading, l.read = true, time.Now()
	go func() {
		defer f.terminal.RestoreOnPanic()
		_ = f.send(ctx, update{lines: l.round(ctx, attempts)})
	}()
}

// round reads the new output of these attempts, and returns their last lines.
func (l *lineReader) round(ctx context.Context, attempts map[live.StepOf]int) map[live.StepOf]string {
	for at := range l.known {
		if _, runs := attempts[at]; !runs {
			delete(l.known, at)
		}
	}
	lines := make(map[live.StepOf]string, len(attempts))
	for at, attempt := range attempts {
		p := l.known[at]
		if p == nil || p.attempt != attempt {
			p = &printing{attempt: attempt}
			l.known[at] = p
		}
		for range partsAtOnce {
			part, err := l.logs.Log(ctx, at.Run, api.LogPlace{Step: at.Step, Attempt: attempt, From: p.next})
			if err != nil || len(part.Text) == 0 {
				break // it printed nothing more, or its log is elsewhere
			}
			p.next = part.Next
			p.take(part.Text)
		}
		if line := p.line(); len(line) > 0 {
			lines[at] = string(line)
		}
	}
	return lines
}

// take adds new output. A carriage return begins a line again, as progress bars do.
func (p *printing) take(text []byte) {
	for len(text) > 0 {
		i := bytes.IndexAny(text, "\r\n")
		if i < 0 {
			p.open = append(p.open, text[:min(len(text), max(0, longestLine-len(p.open)))]...)
			return
		}
		p.open = append(p.open, text[:min(i, max(0, longestLine-len(p.open)))]...)
		p.last = bytes.Clone(p.line())
		p.open = p.open[:0]
		text = text[i+1:]
	}
}

// line returns the last line with something to read: one that has not ended, or else the one before.
func (p *printing) line() []byte {
	if len(bytes.TrimSpace(p.open)) > 0 && !bytes.HasPrefix(p.open, []byte(`{"pawl"`)) {
		return p.open
	}
	return p.last
}
