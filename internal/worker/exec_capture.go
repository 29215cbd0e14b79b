package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/secret"
)

const (
	tailSize  = 4 << 10                // bytes of stdout and of stderr in the output
	lineSize  = 1 << 20                // the longest line that may be a result
	chunkSize = 32 << 10               // bytes of one read
	pipeSize  = 1 << 20                // the most that a pipe holds
	drainWait = 100 * time.Millisecond // the time for the readers to take what the process wrote before it ended
)

// capture reads what a process writes. It keeps the last part of each stream, writes the log, reports what arrives as a
// sign of life and finds the lines that are meant for the engine. Its memory is bounded, however much the process
// writes.
type capture struct {
	log            *attemptLog // nil: none
	alive          Alive
	lines          bool // lines of stdout may be results, heartbeats and failures
	stdout, stderr stream
}

// stream is stdout or stderr. One goroutine fills it; others may read it when that goroutine has ended.
type stream struct {
	tail
	name       string
	shown      *secret.Stream // takes secrets out of what is kept and logged
	partial    []byte         // the unfinished line, stdout only
	tooLong    bool           // the unfinished line is longer than lineSize and is not kept
	ends       [2]byte        // the first and the last byte of that line, blanks left out
	json       []byte         // the last line that is JSON and not meant for the engine
	oversized  bool           // the last line that looks like a JSON object or list is longer than lineSize
	ownFailure *ownFailure    // the last failure that the process reported
}

func newCapture(log *attemptLog, alive Alive, redactor *secret.Redactor) *capture {
	return &capture{
		log:    log,
		alive:  alive,
		stdout: stream{name: StreamStdout, tail: tail{size: tailSize}, shown: redactor.Stream()},
		stderr: stream{name: StreamStderr, tail: tail{size: tailSize}, shown: redactor.Stream()},
	}
}

func (c *capture) close() error { return c.log.close() }

func (c *capture) logPath() string {
	if c.log == nil {
		return ""
	}
	return c.log.path
}

// encode returns the attempt's output.
func (c *capture) encode(code int, values map[string]any) []byte {
	if c.stdout.json == nil && len(values) == 0 { // as of most processes
		return c.encodeOwn(code)
	}
	output := map[string]any{
		"stdout": c.stdout.text(), "stderr": c.stderr.text(),
		"stdoutBytes": c.stdout.total, "stderrBytes": c.stderr.total,
	}
	if path := c.logPath(); path != "" {
		output["log"] = path
	}
	c.merge(output)
	for name, value := range values {
		output[name] = value
	}
	output["exitCode"] = code
	return EncodeJSON(output)
}

// encodeOwn returns the output without results of the process, in the form that EncodeJSON gives it.
func (c *capture) encodeOwn(code int) []byte {
	b := make([]byte, 0, 128)
	b = strconv.AppendInt(append(b, `{"exitCode":`...), int64(code), 10)
	if path := c.logPath(); path != "" {
		b = AppendText(append(b, `,"log":`...), path)
	}
	b = AppendText(append(b, `,"stderr":`...), c.stderr.text())
	b = strconv.AppendInt(append(b, `,"stderrBytes":`...), c.stderr.total, 10)
	b = AppendText(append(b, `,"stdout":`...), c.stdout.text())
	b = strconv.AppendInt(append(b, `,"stdoutBytes":`...), c.stdout.total, 10)
	return append(b, '}')
}

func (c *capture) details() map[string]any {
	details := map[string]any{}
	texts := map[string]string{"stdout": c.stdout.text(), "stderr": c.stderr.text(), "log": c.logPath()}
	for name, value := range texts {
		if value != "" {
			details[name] = value
		}
	}
	return details
}

// chunks are what streams were read into, to be used again.
var chunks sync.Pool

// read reads a stream until it ends or its deadline passes.
func (c *capture) read(r io.Reader, s *stream, results bool) {
	kept, ok := chunks.Get().(*[chunkSize]byte)
	if !ok {
		kept = new([chunkSize]byte)
	}
	defer chunks.Put(kept)
	chunk := kept[:]
	for {
		n, err := r.Read(chunk)
		if n > 0 {
			c.keep(s, s.shown.Next(chunk[:n]))
			c.alive.Output() // also without a line break: a progress bar has none
			if results {
				s.addChunk(chunk[:n], c.alive)
			}
		}
		if err != nil {
			break
		}
	}
	c.keep(s, s.shown.End())
	if results {
		s.finish(c.alive)
	}
}

// keep keeps a part of a stream for the log and for the tail.
func (c *capture) keep(s *stream, part []byte) {
	c.log.write(s.name, part)
	s.tail.write(part)
}

// finish ends the last line, after which no line break came.
func (s *stream) finish(alive Alive) {
	if s.tooLong {
		s.endLong(nil)
		return
	}
	s.scan(s.partial, alive)
}

// endLong ends a line that is too long to be kept.
func (s *stream) endLong(rest []byte) {
	s.lengthen(rest)
	if s.ends == [2]byte{'{', '}'} || s.ends == [2]byte{'[', ']'} {
		s.json, s.oversized = nil, true
	}
}

// lengthen adds a part to a line that is too long to be kept.
func (s *stream) lengthen(part []byte) {
	part = bytes.TrimSpace(part)
	if len(part) == 0 {
		return
	}
	if s.ends[0] == 0 {
		s.ends[0] = part[0]
	}
	s.ends[1] = part[len(part)-1]
}

// addChunk scans the lines that the chunk completes, and keeps the unfinished one.
func (s *stream) addChunk(chunk []byte, alive Alive) {
	last := bytes.LastIndexByte(chunk, '\n')
	if last >= 0 {
		block := chunk[:last]
		if s.tooLong { // skip the end of that line
			var end []byte
			end, block, _ = bytes.Cut(block, []byte("\n"))
			s.endLong(end)
		} else if len(s.partial) > 0 {
			block = append(s.partial, block...)
		}
		s.scan(block, alive)
		s.partial = s.partial[:0]
		s.tooLong = false
	}

	rest := chunk[last+1:]
	if s.tooLong || len(s.partial)+len(rest) > lineSize {
		if !s.tooLong {
			s.ends = [2]byte{}
			s.lengthen(s.partial)
		}
		s.lengthen(rest)
		s.partial = nil
		s.tooLong = true
		return
	}
	s.partial = append(s.partial, rest...)
}

// scan reads complete lines from the last to the first: of each sort of line only the last one counts. It stops when no
// earlier line can matter, so a chunk of ordinary output costs little.
func (s *stream) scan(block []byte, alive Alive) {
	var haveJSON, haveHeartbeat, haveFailure bool
	for len(block) > 0 {
		var line []byte
		if i := bytes.LastIndexByte(block, '\n'); i >= 0 {
			block, line = block[:i], block[i+1:]
		} else {
			block, line = nil, block
		}
		line = bytes.TrimSpace(line)
		if len(line) > lineSize && !haveJSON {
			s.ends = [2]byte{}
			if s.endLong(line); s.oversized {
				haveJSON = true
				continue
			}
		}
		if !mayBeJSON(line) || len(line) > lineSize || haveJSON && !bytes.Contains(line, []byte(`"pawl"`)) {
			continue
		}
		heartbeat, failure := engineMessage(line)
		switch {
		case heartbeat != nil && !haveHeartbeat:
			haveHeartbeat = true
			alive.Heartbeat(heartbeat)
		case failure != nil && !haveFailure:
			haveFailure = true
			s.ownFailure = failure
		case heartbeat == nil && failure == nil && !haveJSON && json.Valid(line):
			haveJSON = true
			s.json, s.oversized = bytes.Clone(line), false
		}
		if haveJSON && !bytes.Contains(block, []byte(`"pawl"`)) {
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

// engineMessage reads a line that is meant for the engine: a heartbeat, or a failure that the process reports. It
// returns two nils for any other line.
func engineMessage(line []byte) (heartbeat json.RawMessage, failure *ownFailure) {
	if line[0] != '{' || !bytes.Contains(line, []byte(`"pawl"`)) {
		return nil, nil
	}
	var message struct {
		Pawl *struct {
			Heartbeat json.RawMessage `json:"heartbeat"`
			ownFailure
		} `json:"pawl"`
	}
	err := json.Unmarshal(line, &message)
	if message.Pawl == nil {
		return nil, nil
	}
	if err != nil {
		// A field has another type than it should. A process that says that it failed did not succeed, whatever else is
		// wrong.
		if errors.As(err, &message.Pawl.ignored) && message.Pawl.Failed {
			return nil, &message.Pawl.ownFailure
		}
		return nil, nil
	}
	if message.Pawl.Heartbeat != nil {
		return message.Pawl.Heartbeat, nil
	}
	return nil, &message.Pawl.ownFailure
}

// tail keeps the last bytes that were written to it.
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

// text returns the tail as valid UTF-8. If the cut went through a character, that character is left out.
func (t *tail) text() string {
	b := t.bytes()
	if t.total > int64(len(b)) {
		for i := 0; i < 3 && len(b) > 0 && b[0]&0xC0 == 0x80; i++ {
			b = b[1:]
		}
	}
	return ValidText(b)
}

// lastOutput returns the last line of a failed process, for the failure's message. It takes stdout if stderr is empty,
// because many programs write their errors there.
func (c *capture) lastOutput(told bool) string {
	if line := c.stderr.lastLine(); line != "" {
		return ": " + line
	}
	line, beats := c.stdout.lastBut(heartbeatLine)
	switch {
	case told: // it has a message of its own
		return ""
	case line != "":
		return "; last line on stdout: " + line
	case beats:
		return ", without any output but heartbeats"
	default:
		return ", without any output"
	}
}

// heartbeatLine is how a line begins by which a process says that it goes on. It explains no failure.
var heartbeatLine = regexp.MustCompile(`^\{\s*"pawl"\s*:\s*\{\s*"heartbeat"`)

// lastLine returns the last line that is not empty, cut to a length that fits a message.
func (t *tail) lastLine() string {
	line, _ := t.lastBut(nil)
	return line
}

// lastBut returns the last line that is not empty and does not match, and whether one that matches came after it.
func (t *tail) lastBut(not *regexp.Regexp) (line string, skipped bool) {
	for _, line := range slices.Backward(strings.Split(strings.TrimSpace(t.text()), "\n")) {
		line = strings.TrimSpace(line)
		if not != nil && not.MatchString(line) {
			skipped = true
		} else if line != "" {
			return Shorten(line, 300), skipped
		}
	}
	return "", skipped
}

// streams are the pipes between a process and its capture. Package os/exec could make them, but then a child process
// that holds a pipe open would keep the attempt from ending.
type streams struct {
	capture        *capture
	child          []*os.File // the process's ends
	stdout, stderr *os.File
	stdin          *os.File // nil: none
	input          string
	reading        atomic.Int32 // outputs that have not ended
	writing        sync.WaitGroup
	done           chan struct{} // closed when both streams have ended
}

// pipe is the worker's end of one of the streams. After its deadline, Read still returns what the pipe holds, and only
// then the deadline's error: the reader may be slow, because it also writes the log and the machine may be busy.
type pipe struct {
	*os.File
	held int // the most that is read after the deadline, because another process may keep writing
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

// emptyInput is the stdin of all processes without an input. Package os/exec would open it for each.
var emptyInput = sharedFile{path: os.DevNull}

// sharedFile is a file that is opened once and stays open.
type sharedFile struct {
	path string
	mu   sync.Mutex
	file *os.File
}

// open returns the file. If it cannot be opened, as while too many others are open, the next call tries again.
func (s *sharedFile) open() (_ *os.File, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		s.file, err = os.Open(s.path)
	}
	return s.file, err
}

func (c *capture) connect(cmd *exec.Cmd, input string) (_ *streams, err error) {
	s := &streams{capture: c, input: input, done: make(chan struct{})}
	defer func() {
		if err != nil {
			s.started(false)
			s.close()
		}
	}()
	pipe := func(make func() (r, w *os.File, err error)) (r, w *os.File) {
		if err == nil {
			r, w, err = make()
		}
		return r, w
	}
	var stdout, stderr, stdin *os.File
	s.stdout, stdout = pipe(outputPipe)
	s.stderr, stderr = pipe(outputPipe)
	if input != "" {
		stdin, s.stdin = pipe(os.Pipe)
	}
	s.child = []*os.File{stdout, stderr, stdin}
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if stdin == nil {
		stdin, err = emptyInput.open()
	}
	cmd.Stdin = stdin
	return s, err
}

// started closes this process's copies of the child's ends. If the child has started, it begins to read and write.
func (s *streams) started(ok bool) {
	for _, f := range s.child {
		_ = f.Close() // a nil file only returns an error
	}
	if !ok {
		close(s.done)
		return
	}
	s.reading.Store(2)
	go s.read(s.stdout, &s.capture.stdout, s.capture.lines)
	go s.read(s.stderr, &s.capture.stderr, false)
	if s.stdin != nil {
		s.writing.Go(func() {
			_, _ = io.WriteString(s.stdin, s.input) // fails if the process does not read its input, which is fine
			_ = s.stdin.Close()
		})
	}
}

// read reads one of the two outputs. The last one that ends closes done.
func (s *streams) read(f *os.File, into *stream, results bool) {
	s.capture.read(&pipe{f, pipeSize}, into, results)
	if s.reading.Add(-1) == 0 {
		close(s.done)
	}
}

// end reads what is still in the pipes and then stops reading and writing, even if another process holds the other
// ends.
func (s *streams) end() {
	select {
	case <-s.done:
	case <-time.After(drainWait):
	}
	now := time.Now()
	for _, f := range []*os.File{s.stdout, s.stderr, s.stdin} {
		if f != nil && errors.Is(f.SetDeadline(now), os.ErrNoDeadline) {
			_ = f.Close() // pipes of Windows have no deadlines; closing one ends what reads it or writes to it
		}
	}
	<-s.done
	s.writing.Wait()
}

func (s *streams) close() {
	for _, f := range []*os.File{s.stdout, s.stderr, s.stdin} {
		_ = f.Close() // a nil file, or one that is closed already, only returns an error
	}
}
