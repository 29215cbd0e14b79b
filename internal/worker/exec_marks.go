package worker

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"time"
)

// The streams that a log is made of.
const (
	StreamUnknown = ""
	StreamStdout  = "stdout"
	StreamStderr  = "stderr"
	StreamPawl    = "pawl" // lines that Pawl adds
)

// LogMark says which stream the text of a log after a place came from, and when that was read.
type LogMark struct {
	At     int64 // the number of bytes before it
	Stream string
	Time   time.Time
}

// mostMarks bounds the marks of one attempt. What comes after them has one mark of no known stream.
const mostMarks = 10_000

// markEvery is how long the text of one stream goes on without another mark, so that its lines have times.
const markEvery = time.Second

// marksPath returns the path of the marks of a log.
func marksPath(log string) string { return log + ".marks" }

// marker decides where a log gets marks. A log that stdout alone wrote within a second has none, and no file of them.
type marker struct {
	last  LogMark
	count int
}

// next returns the mark that a text at a place needs; false: it needs none.
func (m *marker) next(at int64, stream string, now time.Time) (LogMark, bool) {
	if m.count > mostMarks || stream == m.last.Stream && now.Sub(m.last.Time) < markEvery {
		return LogMark{}, false
	}
	if m.count++; m.count > mostMarks {
		stream = StreamUnknown
	}
	m.last = LogMark{At: at, Stream: stream, Time: now}
	return m.last, true
}

// appendMarks writes marks as lines: place, stream, and the time in microseconds.
func appendMarks(b []byte, marks ...LogMark) []byte {
	for _, m := range marks {
		b = append(strconv.AppendInt(b, m.At, 10), ' ')
		b = append(append(b, m.Stream...), ' ')
		b = append(strconv.AppendInt(b, m.Time.UnixMicro(), 10), '\n')
	}
	return b
}

// LogMarks returns the marks of the log with a path that matter to the bytes from a place up to another one: the first
// of them may come before. There are none of a log that only stdout wrote, or an older version of Pawl.
func LogMarks(log string, from, to int64) ([]LogMark, error) {
	text, err := os.ReadFile(marksPath(log))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []LogMark
	for line := range bytes.Lines(text) {
		m, ok := readMark(line)
		switch {
		case !ok || m.At >= to:
		case m.At <= from:
			out = append(out[:0], m)
		default:
			out = append(out, m)
		}
	}
	return out, nil
}

// readMark reads a line of marks. The last one may be incomplete: it is being written.
func readMark(line []byte) (m LogMark, ok bool) {
	fields := bytes.Split(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
	if len(fields) != 3 || !bytes.HasSuffix(line, []byte("\n")) {
		return m, false
	}
	at, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return m, false
	}
	micro, err := strconv.ParseInt(string(fields[2]), 10, 64)
	if err != nil {
		return m, false
	}
	return LogMark{At: at, Stream: string(fields[1]), Time: time.UnixMicro(micro)}, true
}
