package pawlhttp_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawlhttp"
	"github.com/pawl-dev/pawl/pawltest"
)

// torn is a propagator that panics where it should say what a context holds.
type torn struct{ pawl.Propagator }

func (torn) ToHeaders(context.Context) map[string]string { panic("no tenant") }

// tornTransport panics instead of sending a request.
type tornTransport struct{}

func (tornTransport) RoundTrip(*http.Request) (*http.Response, error) { panic("no line") }

// TestPanicsOfAClientsConfiguration checks that a panic of what a client was given is the error of the call.
func TestPanicsOfAClientsConfiguration(t *testing.T) {
	w := pawl.Define("w", func(pawl.Context, int) (int, error) { return 1, nil })
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		c := connect(t, e, pawl.Config{Propagators: []pawl.Propagator{torn{}}})
		_, err := w.Start(t.Context(), c, "w-1", 1)
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "torn panicked in ToHeaders: no tenant") {
			t.Errorf("the propagator: %v", err)
		}
		if runs, err := e.ListRuns(t.Context(), client.Query{}); err != nil || len(runs) != 0 {
			t.Errorf("%d runs, %v", len(runs), err)
		}
		off, err := pawlhttp.Connect("http://127.0.0.1:7295", pawlhttp.ClientConfig{Transport: tornTransport{}})
		ok(t, err)
		if _, err := off.DescribeRun(t.Context(), "w-1"); err == nil ||
			!strings.Contains(err.Error(), "the transport panicked: no line") {
			t.Errorf("the transport: %v", err)
		}
	}, w)
}
