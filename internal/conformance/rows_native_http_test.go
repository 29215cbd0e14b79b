package conformance

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/memnet"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/internal/service"
)

// TestFlowsOverHTTP runs the rows of flows that ask the service of an engine again, with a client of a server in its
// place.
func TestFlowsOverHTTP(t *testing.T) {
	before := through
	t.Cleanup(func() { through = before })
	asked := 0
	through = func(svc *service.Embedded) (api.Service, func()) {
		asked++
		return overHTTP(svc)
	}
	for _, id := range []string{"B1", "B2", "B3", "B4", "B5", "B7", "B8", "B9", "B10"} {
		t.Run(id, rows[id])
	}
	if asked < 9 {
		t.Errorf("%d rows have asked a server", asked)
	}
}

// overHTTP returns a client of a server that has the service.
func overHTTP(svc *service.Embedded) (_ api.Service, leave func()) {
	at := memnet.Listen()
	s := &http.Server{Handler: server.New(server.Config{Service: svc}).Handler()}
	over := make(chan error)
	go func() { over <- s.Serve(at) }()
	c := httpapi.Over("the server", func(ctx context.Context) (net.Conn, error) { return at.Dial(ctx, "", "") })
	return c, func() {
		c.Close()
		_ = s.Close()
		<-over
	}
}
