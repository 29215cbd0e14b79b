package server

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestLongAnswersAreCompressed checks that a long answer is compressed for a client that takes that, and reads the
// same; short ones are sent as they are.
func TestLongAnswersAreCompressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for range 30 {
			if _, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(orderFlow)}); err != nil {
				t.Fatal(err)
			}
		}
		status, header, text := b.plain("GET", "/api/v1/runs", "", "Accept-Encoding", "gzip")
		if status != 200 || header.Get("Content-Encoding") != "gzip" || header.Get("Vary") == "" {
			t.Fatalf("%d, %v", status, header)
		}
		r, err := gzip.NewReader(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		whole, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		var page api.Page
		if err := json.Unmarshal(whole, &page); err != nil || len(page.Runs) != 30 || len(text) > len(whole)/3 {
			t.Errorf("%v, %d runs, %d bytes of %d", err, len(page.Runs), len(text), len(whole))
		}
		_, header, _ = b.plain("GET", "/version", "", "Accept-Encoding", "gzip")
		if header.Get("Content-Encoding") != "" {
			t.Errorf("a short answer has %v", header)
		}
	})
}
