package worker

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

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
// therefore cannot fill the disk or keep it busy.
type attemptLog struct {
	path string

	mu   sync.Mutex
	file *os.File
	room int64 // bytes that are left for the first part
	rest tail  // the end of what comes after it
	err  error // the first failed write; nothing is written after it
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
	return &attemptLog{path: path, file: f, room: limit - end, rest: tail{size: int(end)}}, nil
}

func (l *attemptLog) write(b []byte) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.room > 0 {
		head := b[:min(int64(len(b)), l.room)]
		l.room -= int64(len(head))
		b = b[len(head):]
		l.put(head)
	}
	if len(b) > 0 {
		l.rest.write(b)
	}
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
		l.put(fmt.Appendf(nil, "\n[pawl: %d bytes left out: the output is larger than the log's limit]\n", left))
	}
	l.put(end)
	if err := l.file.Close(); l.err == nil {
		l.err = err
	}
	return l.err
}
