package web

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/reach"
	"github.com/pawl-dev/pawl/internal/worker/workertest"
	"github.com/pawl-dev/pawl/policy"
)

// TestHTTPReach checks that no request goes to an address that is refused: in the URL, by a name, or after a redirect.
// The failure is not retried.
func TestHTTPReach(t *testing.T) {
	asked := 0
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		}
	})
	byName := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	for _, c := range []struct {
		name, url string
		denied    []netip.Prefix
		asked     int
		refused   string // empty: the request is made
	}{
		{"allowed", s.URL, nil, 1, ""},
		{"metadata", "http://169.254.169.254/latest", nil, 0, "169.254.169.254 is a link-local address"},
		{"metadata by name", "http://metadata.google.internal/", nil, 0, "169.254.169.254 is a link-local address"},
		{"redirect", s.URL + "/away", nil, 1, "169.254.169.254 is a link-local address"},
		{"denied", s.URL, loopback, 0, "is denied by the server; --http-allow"},
		{"denied by name", byName, loopback, 0, "is denied by the server; --http-allow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked = 0
			h := NewHTTP(HTTPConfig{Reach: reach.Inside("http-allow", nil, c.denied)})
			defer h.Close()
			res := h.Execute(t.Context(), new(httpTask(t, map[string]any{"url": c.url})), workertest.NewSigns())
			f := res.Failure
			if (f != nil) != (c.refused != "") || asked != c.asked {
				t.Fatalf("asked %d times, %v", asked, f)
			}
			if f != nil && (f.Kind != policy.KindFailed || f.Type != "address_refused" ||
				!strings.Contains(f.Message, c.refused)) {
				t.Errorf("%+v", f)
			}
		})
	}
}
