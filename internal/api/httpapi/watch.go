package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// StreamType is the media type of a stream of events.
const StreamType = "text/event-stream"

// The names of the messages of a stream. An event of the run has no name.
const (
	StreamEnd     = "end"     // the run has ended, and all of its events were sent
	StreamProblem = "problem" // the stream ends for another reason: a Problem
)

// KeepAlive is how often a stream on which nothing happens shows that it is alive.
const KeepAlive = 15 * time.Second

// silence is how long a stream may send nothing before it counts as broken.
const silence = 3 * KeepAlive

// Watch implements api.Service. A stream that breaks is opened again after the last event that fn has got.
func (c *Client) Watch(ctx context.Context, name string, after int, fn func(api.Event) error) error {
	path, err := runPath(name, "events")
	if err != nil {
		return err
	}
	return c.stream(ctx, func() *streaming {
		s := &streaming{client: c, take: func(data []byte) error {
			var ev api.Event
			if err := json.Unmarshal(data, &ev); err != nil {
				return &unreadableError{err}
			}
			if err := fn(ev); err != nil {
				return err
			}
			after = ev.Seq
			return nil
		}}
		s.path = path + "?after=" + strconv.Itoa(after)
		return s
	})
}

// stream reads streams, each from the point where the one before broke, until the end.
func (c *Client) stream(ctx context.Context, next func() *streaming) error {
	for {
		s := next()
		over, err := s.read(ctx)
		if over || err != nil {
			return err
		}
		if s.lines == 0 { // otherwise a stream that brings nothing before it breaks could break forever
			return c.broken(ctx, http.MethodGet, true, io.ErrUnexpectedEOF)
		}
	}
}

// streaming is one stream of messages.
type streaming struct {
	client *Client
	path   string
	take   func(data []byte) error // gets each message; what it returns ends the stream
	lines  int                     // number of lines that the stream has brought
}

// read reads the stream. over is set if it ended because there is no more to come; otherwise, without an error, it
// broke.
func (s *streaming) read(ctx context.Context) (over bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	res, err := s.client.send(ctx, http.MethodGet, s.path, StreamType+", application/json", nil)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return false, s.client.broken(ctx, http.MethodGet, true, err)
		}
		return false, readProblem(s.client.name, res, body)
	}
	in := &messages{in: bufio.NewReader(res.Body), alive: time.AfterFunc(silence, cancel), lines: &s.lines}
	defer in.alive.Stop()
	for {
		m, err := in.next()
		if err != nil {
			return false, nil // the stream broke: it is opened again
		}
		switch m.name {
		case StreamEnd:
			return true, nil
		case StreamProblem:
			var p Problem
			if err := json.Unmarshal(m.data, &p); err != nil {
				return false, unreadable(s.client.name, err)
			}
			return false, p.asError()
		case "":
			err := s.take(m.data)
			var broken *unreadableError
			if errors.As(err, &broken) {
				return false, unreadable(s.client.name, broken.error)
			}
			if err != nil {
				return true, err
			}
		default: // a newer server sent it
		}
	}
}

// unreadableError is the error of a message that cannot be read.
type unreadableError struct{ error }

func unreadable(name string, err error) error {
	return &api.Error{
		Code: api.CodeInternal, Message: fmt.Sprintf("%s sent an event that cannot be read: %v", name, err), Err: err,
	}
}

// message is one message of a stream.
type message struct {
	name string
	data []byte
}

// messages reads a stream. While it waits, alive counts: if nothing comes for too long, the stream is cut.
type messages struct {
	in    *bufio.Reader
	alive *time.Timer
	lines *int // counts what was read
}

// next returns the next message.
func (m *messages) next() (out message, err error) {
	for {
		m.alive.Reset(silence)
		line, err := m.in.ReadBytes('\n')
		m.alive.Stop() // the caller may take as long as it needs with a message
		if err != nil {
			return out, err
		}
		*m.lines++
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if out.name != "" || len(out.data) > 0 {
				return out, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			out.name = string(value)
		case "data":
			out.data = append(out.data, value...)
		default: // a comment, or the id, which the event has too
		}
	}
}
