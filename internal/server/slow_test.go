package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestSlowReader checks that a large answer reaches a reader that takes a little of it now and then, however long all
// of it takes; one that takes nothing is given up.
func TestSlowReader(t *testing.T) {
	const size, part = 1 << 20, 16 << 10
	for pause, whole := range map[time.Duration]bool{5 * time.Second: true, time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, func(c *Config) {
				c.Routes = func(r Routes, _ api.Service) {
					r.Handle(Anyone, "GET /large", func(w http.ResponseWriter, _ *http.Request) {
						_, _ = w.Write([]byte(strings.Repeat("x", size)))
					})
				}
			})
			conn, err := b.dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := fmt.Fprint(conn, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReaderSize(conn, part), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			got, text := 0, make([]byte, part)
			for err == nil {
				<-time.After(pause)
				var n int
				n, err = io.ReadFull(res.Body, text)
				got += n
			}
			if (got == size) != whole {
				t.Errorf("%d bytes of %d with pauses of %s: %v", got, size, pause, err)
			}
		})
	}
}

// TestHeadOfStream checks that a stream that is asked for its header only has no messages, and its connection is free
// for the next request.
func TestHeadOfStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		started, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(orderFlow)})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := b.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		for _, path := range []string{"/api/v1/events", "/api/v1/runs/" + started.Run + "/events", "/livez"} {
			if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprintf(conn, "HEAD %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(in, &http.Request{Method: http.MethodHead})
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if res.StatusCode != 200 || res.Header.Get("Content-Type") == "" {
				t.Errorf("%s: %d %v", path, res.StatusCode, res.Header)
			}
		}
	})
}
