package worker

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// logTail is the part of a log's limit, in bytes, that is kept for the end of the output.
const logTail = 256 << 10

// LogPath returns the path of an attempt's log.
func LogPath(dir string, tok core.Token, step string) string {
	return filepath.Join(dir, tok.Run.String(), fileName(step)+"."+strconv.Itoa(tok.Attempt)+".log")
}

// fileName turns a step's name into a file name. It keeps letters, digits and . _ - [ ] and escapes the rest. A leading
// dot is escaped too, because it would hide the file.
func fileName(step string) string {
	var b strings.Builder
	for _, c := range []byte(step) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("_-[]", c) >= 0,
			c == '.' && b.Len() > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := b.String()
	if len(name) > 200 {
		h := fnv.New64a()
		h.Write([]byte(step))
		name = fmt.Sprintf("%s~%016x", name[:180], h.Sum64())
	}
	return name
}

// attemptLog is the log of one attempt on disk: stdout and stderr in the order in which they were read. The first part
// is written at once. Of the rest only the end is kept, in memory, and written when the attempt ends. Endless output
// therefore cannot fill the disk or keep it busy. Its marks, in a file beside it, tell the streams apart.
type attemptLog struct {
	path string

	mu    sync.Mutex
	file  *os.File
	room  int64 // bytes that are left for the first part
	head  int64 // bytes of the first part
	rest  tail  // the end of what comes after it
	err   error // the first failed write; nothing is written after it
	base  int64 // bytes that were in the file before, of an attempt that was given back; -1: not known yet
	marks *os.File
	mark  marker
	later []LogMark // marks of the rest; the first one is that in which the rest began
}

func openLog(path string, limit int64) (*attemptLog, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	end := min(logTail, limit/2)
	l := &attemptLog{path: path, file: f, room: limit - end, rest: tail{size: int(end)}, base: -1}
	l.mark.last = LogMark{Stream: StreamStdout, Time: time.Now()}
	return l, nil
}

// write adds what a stream has written.
func (l *attemptLog) write(stream string, b []byte) {
	if l == nil || len(b) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.mark.last
	if m, needed := l.mark.next(l.head+l.rest.total, stream, time.Now()); needed {
		l.note(before, m)
	}
	if l.room > 0 {
		head := b[:min(int64(len(b)), l.room)]
		l.room -= int64(len(head))
		b = b[len(head):]
		l.put(head)
		l.head += int64(len(head))
	}
	if len(b) > 0 {
		l.rest.write(b)
	}
}

// note keeps a mark, which came after another one. It is written when its text is.
func (l *attemptLog) note(before, m LogMark) {
	switch {
	case l.room > 0:
		l.putMarks(m)
	case len(l.later) == 0:
		l.later = []LogMark{before, m}
	default:
		l.later = append(l.later, m)
	}
}

// putMarks writes marks, whose places count from what this attempt has written.
func (l *attemptLog) putMarks(marks ...LogMark) {
	if l.err != nil {
		return
	}
	if l.base < 0 {
		info, err := l.file.Stat()
		if err != nil {
			l.err = err
			return
		}
		l.base = info.Size() - l.head
	}
	for i := range marks {
		marks[i].At += l.base
	}
	if l.marks == nil {
		l.marks, l.err = os.OpenFile(marksPath(l.path), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	}
	if l.err == nil {
		_, l.err = l.marks.Write(appendMarks(nil, marks...))
	}
}

// moved returns the marks of the rest as they are once only its end is left, behind a line that says so.
func (l *attemptLog) moved(left, line int64) []LogMark {
	begins := l.mark.last
	var out []LogMark
	for i, m := range l.later {
		if i == 0 || m.At <= l.head+left {
			begins = m
			continue
		}
		m.At += line - left
		out = append(out, m)
	}
	pawl := LogMark{l.head, StreamPawl, begins.Time}
	begins.At = l.head + line
	return append([]LogMark{pawl, begins}, out...)
}

func (l *attemptLog) put(b []byte) {
	if l.err == nil {
		_, l.err = l.file.Write(b)
	}
}

// close writes the end of the output. It returns the first error of the log: what came after it is missing.
func (l *attemptLog) close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	end := l.rest.bytes()
	if left := l.rest.total - int64(len(end)); left > 0 {
		line := fmt.Appendf(nil, "\n[pawl: %d bytes left out: the output is larger than the log's limit]\n", left)
		if l.mark.count > 0 {
			l.later = l.moved(left, int64(len(line)))
		}
		l.put(line)
		l.head += int64(len(line))
	} else if len(l.later) > 0 {
		l.later = l.later[1:]
	}
	if len(l.later) > 0 {
		l.putMarks(l.later...)
	}
	l.put(end)
	err := l.file.Close()
	if l.marks != nil {
		err = errors.Join(err, l.marks.Close())
	}
	if l.err == nil {
		l.err = err
	}
	return l.err
}
