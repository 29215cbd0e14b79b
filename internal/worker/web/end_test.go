package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/worker"
)

// TestResponseOutput checks that an output that is written part by part equals that of an encoder.
func TestResponseOutput(t *testing.T) {
	for _, body := range []string{"", "text", `{"a": [1, "<&>"]}`, "[1,", "\xff\u2028\"", `"text"`} {
		for _, contentType := range []string{"", "application/json", "text/plain; charset=\"utf-8\""} {
			resp := &http.Response{StatusCode: 404, Header: http.Header{
				"Content-Type": {contentType}, "Set-Cookie": {"a=1", "b=\xff"}, "X-A": {"1"},
			}}
			headers := map[string]string{}
			for name, values := range resp.Header {
				headers[strings.ToLower(name)] = worker.ValidText([]byte(strings.Join(values, ", ")))
			}
			want := map[string]any{"status": 404, "headers": headers, "body": worker.ValidText([]byte(body))}
			if json.Valid([]byte(body)) && (contentType == "application/json" || body[0] == '{') {
				want["json"] = json.RawMessage(body)
			}
			if got := responseOutput(resp, []byte(body)); string(got) != string(worker.EncodeJSON(want)) {
				t.Errorf("%q of type %q became\n%s, want\n%s", body, contentType, got, worker.EncodeJSON(want))
			}
		}
	}
}

// TestDeepJSON checks that a body that is nested so deep that the output could not be read any more is a text only.
func TestDeepJSON(t *testing.T) {
	for n, kept := range map[int]bool{1: true, maxDepth: true, maxDepth + 1: false, 10_000: false} {
		body := `["\"[[",` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + "]"
		if n == 1 {
			body = `["\"[["]`
		}
		resp := &http.Response{StatusCode: 200, Header: http.Header{}}
		out := responseOutput(resp, []byte(body))
		if !json.Valid(out) || bytes.Contains(out, []byte(`"json":`)) != kept {
			t.Errorf("%d deep: valid is %t, json is there is not %t", n, json.Valid(out), kept)
		}
	}
}
