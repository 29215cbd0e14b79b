package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	tailSize  = 4 << 10  // of stdout and stderr, in the output
	lineSize  = 1 << 20  // the longest line that is looked at for results
	chunkSize = 32 << 10 // one read
	pipeSize  = 1 << 20  // the most a pipe holds
	drainWait = 100 * time.Millisecond
)

// capture takes what a process writes: it keeps the ends, feeds the log, counts lines as signs of life and picks out
// what is meant for the engine. Its memory is bounded, whatever the process writes.
type capture struct {
	log            *attemptLog // nil: none
	alive          Alive
	stdout, stderr stream
}

// stream is one of the two. It is written by one goroutine and read when that has ended.
type stream struct {
	tail
	partial []byte // the unfinished line, stdout only
	long    bool   // the unfinished line is too long to be looked at
	json    []byte // the last line that is JSON and not meant for the engine
	said    *said  // the last word about a failure
}

func newCapture(log *attemptLog, alive Alive) *capture {
	return &capture{log: log, alive: alive, stdout: stream{tail: tail{size: tailSize}}, stderr: stream{tail: tail{size: tailSize}}}
}

func (c *capture) close() { c.log.close() }

func (c *capture) logPath() string {
	if c.log == nil {
		return ""
	}
	return c.log.path
}

func (c *capture) word() *said { return c.stdout.said }

func (c *capture) output(code int) map[string]any {
	output := map[string]any{
		"exitCode": code, "stdout": c.stdout.text(), "stderr": c.stderr.text(),
		"stdoutBytes": c.stdout.total, "stderrBytes": c.stderr.total,
	}
	if path := c.logPath(); path != "" {
		output["log"] = path
	}
	return output
}

func (c *capture) details() map[string]any {
	details := map[string]any{}
	for name, value := range map[string]string{"stdout": c.stdout.text(), "stderr": c.stderr.text(), "log": c.logPath()} {
		if value != "" {
			details[name] = value
		}
	}
	return details
}

// read takes a stream until its end, or until its deadline is set.
func (c *capture) read(r io.Reader, s *stream, results bool) {
	chunk := make([]byte, chunkSize)
	for {
		n, err := r.Read(chunk)
		if n > 0 {
			c.log.write(chunk[:n])
			s.tail.write(chunk[:n])
			if bytes.IndexByte(chunk[:n], '\n') >= 0 {
				c.alive.Output()
			}
			if results {
				s.lines(chunk[:n], c.alive)
			}
		}
		if err != nil {
			break
		}
	}
	if results && !s.long {
		s.look(s.partial, c.alive)
	}
}

// lines looks at the lines that the chunk completes.
func (s *stream) lines(chunk []byte, alive Alive) {
	last := bytes.LastIndexByte(chunk, '\n')
	if last >= 0 {
		block := chunk[:last]
		if s.long { // the rest of the line that was too long
			_, block, _ = bytes.Cut(block, []byte("\n"))
		} else if len(s.partial) > 0 {
			block = append(s.partial, block...)
		}
		s.look(block, alive)
		s.partial, s.long = s.partial[:0], false
	}
	rest := chunk[last+1:]
	if s.long || len(s.partial)+len(rest) > lineSize {
		s.partial, s.long = nil, true
		return
	}
	s.partial = append(s.partial, rest...)
}

// look goes through complete lines from the last to the first, until nothing before could matter.
func (s *stream) look(block []byte, alive Alive) {
	var found, beaten, spoken bool
	for len(block) > 0 {
		var line []byte
		if i := bytes.LastIndexByte(block, '\n'); i >= 0 {
			block, line = block[:i], block[i+1:]
		} else {
			block, line = nil, block
		}
		line = bytes.TrimSpace(line)
		if !mayBeJSON(line) || len(line) > lineSize || found && !bytes.Contains(line, []byte(`"pawl"`)) {
			continue
		}
		heartbeat, word := addressed(line)
		switch {
		case heartbeat != nil && !beaten:
			beaten = true
			alive.Heartbeat(heartbeat)
		case word != nil && !spoken:
			spoken, s.said = true, word
		case heartbeat == nil && word == nil && !found && json.Valid(line):
			found, s.json = true, bytes.Clone(line)
		}
		if found && !bytes.Contains(block, []byte(`"pawl"`)) {
			return
		}
	}
}

func mayBeJSON(line []byte) bool {
	if len(line) == 0 {
		return false
	}
	switch line[0] {
	case '{', '[', '"', '-', 't', 'f', 'n', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return true
	}
	return false
}

// addressed reads a line that is meant for the engine: a heartbeat, or a word about a failure. Both nil: it is not.
func addressed(line []byte) (json.RawMessage, *said) {
	if line[0] != '{' || !bytes.Contains(line, []byte(`"pawl"`)) {
		return nil, nil
	}
	var message struct {
		Pawl *struct {
			Heartbeat json.RawMessage `json:"heartbeat"`
			said
		} `json:"pawl"`
	}
	if err := json.Unmarshal(line, &message); err != nil || message.Pawl == nil {
		return nil, nil
	}
	if message.Pawl.Heartbeat != nil {
		return message.Pawl.Heartbeat, nil
	}
	return nil, &message.Pawl.said
}

// tail keeps the last bytes of what is written to it.
type tail struct {
	size  int
	buf   []byte // up to twice the size
	total int64
}

func (t *tail) write(b []byte) {
	t.total += int64(len(b))
	if len(b) > t.size {
		b = b[len(b)-t.size:]
	}
	if len(t.buf)+len(b) > 2*t.size {
		t.buf = append(t.buf[:0], t.bytes()...)
	}
	t.buf = append(t.buf, b...)
}

func (t *tail) bytes() []byte { return t.buf[max(0, len(t.buf)-t.size):] }

// text is the tail as valid UTF-8; a character that the cut went through is left out.
func (t *tail) text() string {
	b := t.bytes()
	if t.total > int64(len(b)) {
		for i := 0; i < 3 && len(b) > 0 && b[0]&0xC0 == 0x80; i++ {
			b = b[1:]
		}
	}
	return ValidText(b)
}

// lastWords is what a process that failed said last, for its failure's message: many write to stdout what went wrong.
func (c *capture) lastWords() string {
	if line := c.stderr.lastLine(); line != "" {
		return ": " + line
	}
	line := c.stdout.lastLine()
	switch {
	case c.word() != nil: // its own words tell
		return ""
	case line != "":
		return "; its last words on stdout: " + line
	default:
		return ", without a word"
	}
}

// lastLine is the last line that says anything, short enough for a message.
func (t *tail) lastLine() string {
	lines := strings.Split(strings.TrimSpace(t.text()), "\n")
	return Shorten(strings.TrimSpace(lines[len(lines)-1]), 300)
}

// streams are the pipes between a process and its capture. They are the worker's own rather than package os/exec's: a
// process that holds one open must not keep the attempt from ending.
type streams struct {
	capture        *capture
	child          []*os.File // the process's ends
	stdout, stderr *os.File
	stdin          *os.File // nil: none
	input          string
	reading        sync.WaitGroup
	writing        sync.WaitGroup
	done           chan struct{} // closed when both streams have ended
}

// pipe is where the worker reads one of the streams. Past its deadline it gives what it holds, and then the deadline's error: who
// reads may be behind, since it writes the log and the machine may be busy.
type pipe struct {
	*os.File
	held int // so much it gives at most, since somebody may write on
}

func (p *pipe) Read(b []byte) (n int, err error) {
	n, err = p.File.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n = readNow(p.File, b[:min(len(b), p.held)])
		if p.held -= n; n > 0 {
			err = nil
		}
	}
	return n, err
}

func (c *capture) connect(cmd *exec.Cmd, input string) (_ *streams, err error) {
	s := &streams{capture: c, input: input, done: make(chan struct{})}
	defer func() {
		if err != nil {
			s.started(false)
			s.close()
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	var stdout, stderr, stdin *os.File
	s.stdout, stdout = pipe()
	s.stderr, stderr = pipe()
	if input != "" {
		stdin, s.stdin = pipe()
	}
	s.child = []*os.File{stdout, stderr, stdin}
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if stdin != nil {
		cmd.Stdin = stdin
	}
	return s, nil
}

// started closes the process's ends here and, where there is a process, begins to read and write.
func (s *streams) started(ok bool) {
	for _, f := range s.child {
		_ = f.Close() // nil is refused
	}
	if !ok {
		close(s.done)
		return
	}
	s.reading.Go(func() { s.capture.read(&pipe{s.stdout, pipeSize}, &s.capture.stdout, true) })
	s.reading.Go(func() { s.capture.read(&pipe{s.stderr, pipeSize}, &s.capture.stderr, false) })
	if s.stdin != nil {
		s.writing.Go(func() {
			_, _ = io.WriteString(s.stdin, s.input) // a process need not read it
			_ = s.stdin.Close()
		})
	}
	go func() {
		s.reading.Wait()
		close(s.done)
	}()
}

// end takes what is still in the pipes and ends reading and writing, whoever holds the other ends.
func (s *streams) end() {
	select {
	case <-s.done:
	case <-time.After(drainWait):
	}
	now := time.Now()
	_ = s.stdout.SetReadDeadline(now)
	_ = s.stderr.SetReadDeadline(now)
	if s.stdin != nil {
		_ = s.stdin.SetWriteDeadline(now)
	}
	<-s.done
	s.writing.Wait()
}

func (s *streams) close() {
	for _, f := range []*os.File{s.stdout, s.stderr, s.stdin} {
		_ = f.Close() // nil is refused, and so is a second time
	}
}
