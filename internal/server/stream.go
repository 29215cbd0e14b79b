package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// relay sends the output of produce to the caller, until produce returns, the caller has gone, or the server closes.
// While there is nothing to send it shows that the stream is alive.
func (s *Server) relay(
	ctx context.Context, out *stream, produce func(ctx context.Context, send func(id string, data any) error) error,
) {
	s.streams.Add(1)
	defer s.streams.Add(-1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.over, cancel)()
	type item struct {
		id   string
		data any
	}
	items, ended := make(chan item), make(chan error, 1)
	go func() {
		ended <- produce(ctx, func(id string, data any) error {
			select {
			case items <- item{id, data}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	out.flush() // the caller knows now that the stream has begun
	quiet := time.NewTimer(httpapi.KeepAlive)
	defer quiet.Stop()
	var err error
	for err == nil {
		quiet.Reset(httpapi.KeepAlive)
		select {
		case it := <-items:
			err = out.send(it.id, "", it.data)
		case <-quiet.C:
			err = out.keepAlive()
		case produced := <-ended:
			if produced == nil {
				_ = out.send("", httpapi.StreamEnd, struct{}{}) // the caller has gone if this fails
			} else if why := endedFor(ctx); why != nil {
				_ = out.send("", httpapi.StreamProblem, why) // likewise
			} else if ctx.Err() == nil {
				_ = out.send("", httpapi.StreamProblem, httpapi.ProblemOf(produced)) // likewise
			}
			return
		}
	}
	cancel()
	<-ended //nolint:errcheck // the caller has gone, so nobody wants to know why
}

// stream writes server-sent events.
type stream struct {
	w       io.Writer
	control *http.ResponseController
	text    bytes.Buffer
}

// send writes one message. id and name are left out if they are empty.
func (s *stream) send(id, name string, data any) error {
	s.text.Reset()
	if id != "" {
		fmt.Fprintf(&s.text, "id: %s\n", id)
	}
	if name != "" {
		fmt.Fprintf(&s.text, "event: %s\n", name)
	}
	s.text.WriteString("data: ")
	enc := json.NewEncoder(&s.text) // it ends the line
	enc.SetEscapeHTML(false)
	if err := enc.Encode(data); err != nil {
		return err
	}
	s.text.WriteByte('\n')
	return s.write()
}

// keepAlive writes a comment, which shows both sides that the other is there.
func (s *stream) keepAlive() error {
	s.text.Reset()
	s.text.WriteString(": nothing new\n\n")
	return s.write()
}

func (s *stream) write() error {
	if _, err := s.w.Write(s.text.Bytes()); err != nil {
		return err
	}
	return s.control.Flush()
}

func (s *stream) flush() { _ = s.control.Flush() } // the next write fails if the caller has gone
