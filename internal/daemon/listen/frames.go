package listen

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// part is the part of a request of HTTP/1 that comes next.
type part int

const (
	firstLine part = iota
	field          // a line of the header
	fixedBody
	chunkSize
	chunkData
	chunkEnd // the line end after the data of a chunk
	trailer
	refused // a reader could take the rest for another request than the sender does
)

const (
	longestLine = 24 << 10 // a line of a header; net/http refuses shorter ones
	longestSize = 4 << 10  // the line before a chunk
)

// frames follows where the requests of a connection begin and end. It refuses what readers of HTTP understand in
// different ways: a proxy that lets such a request pass could take the request of a stranger for its rest.
type frames struct {
	next    part
	line    []byte // the part of a line that has come
	left    int64  // bytes of a body or a chunk that have not come
	lengths int    // fields Content-Length of the header, and Transfer-Encoding
	codings int
	length  int64
	old     bool // HTTP/1.0, which has no chunks
}

// poison is not a request, a field or a chunk size: net/http answers it with 400 and closes the connection.
const poison = ":\r\n\r\n"

// pass appends to out the received bytes that may be passed on, and poison if it refuses them.
func (f *frames) pass(out, came []byte) []byte {
	for len(came) > 0 && f.next != refused {
		if f.next == fixedBody || f.next == chunkData {
			n := int(min(f.left, int64(len(came))))
			out, came = append(out, came[:n]...), came[n:]
			if f.left -= int64(n); f.left == 0 {
				f.next = map[part]part{fixedBody: firstLine, chunkData: chunkEnd}[f.next]
			}
			continue
		}
		end := bytes.IndexByte(came, '\n') + 1
		if end == 0 {
			f.line = append(f.line, came...)
			came = nil
		} else {
			f.line = append(f.line, came[:end]...)
			came = came[end:]
		}
		switch {
		case len(f.line) > longestLine, f.next == chunkSize && len(f.line) > longestSize:
			f.next = refused
		case end > 0:
			if f.take(f.line); f.next != refused {
				out = append(out, f.line...)
			}
			f.line = f.line[:0]
		}
	}
	if f.next == refused {
		return append(out, poison...)
	}
	return out
}

// take takes a whole line and decides what comes next.
func (f *frames) take(whole []byte) {
	line, ok := bytes.CutSuffix(whole, []byte("\r\n"))
	if !ok || bytes.ContainsAny(line, "\r\x00") {
		f.next = refused
		return
	}
	switch f.next {
	case firstLine:
		*f = frames{next: field, line: f.line, old: bytes.HasSuffix(line, []byte("HTTP/1.0"))}
		if len(line) == 0 {
			f.next = refused
		}
	case field:
		f.takeField(string(line))
	case chunkSize:
		f.takeSize(string(line))
	case chunkEnd:
		if f.next = chunkSize; len(line) > 0 {
			f.next = refused
		}
	case trailer:
		if len(line) == 0 {
			f.next = firstLine
		} else if strings.ContainsAny(string(line[:1]), " \t") {
			f.next = refused
		}
	default: // no line is expected
	}
}

// takeField takes a line of the header.
func (f *frames) takeField(line string) {
	if line == "" {
		f.begin()
		return
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok || name == "" || strings.ContainsAny(name, " \t") { // also a line that goes on with the field before
		f.next = refused
		return
	}
	value = strings.Trim(value, " \t")
	switch strings.ToLower(name) {
	case "content-length":
		f.lengths++
		n, err := strconv.ParseUint(value, 10, 63)
		if f.length = int64(n); err != nil {
			f.next = refused
		}
	case "transfer-encoding":
		if f.codings++; !strings.EqualFold(value, "chunked") || f.old {
			f.next = refused
		}
	}
	if f.lengths+f.codings > 1 {
		f.next = refused
	}
}

// begin decides what follows the header.
func (f *frames) begin() {
	switch {
	case f.codings > 0:
		f.next = chunkSize
	case f.length > 0:
		f.next, f.left = fixedBody, f.length
	default:
		f.next = firstLine
	}
}

// takeSize takes the line before a chunk.
func (f *frames) takeSize(line string) {
	size, _, _ := strings.Cut(line, ";")
	n, err := strconv.ParseUint(strings.TrimRight(size, " \t"), 16, 63)
	switch {
	case err != nil || n == math.MaxInt64:
		f.next = refused
	case n == 0:
		f.next = trailer
	default:
		f.next, f.left = chunkData, int64(n)
	}
}
