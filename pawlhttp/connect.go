package pawlhttp

import (
	"fmt"
	"net/http"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/served"
)

// Client works with the runs of a server. It is a pawl.Client, like an engine: typed starts, events, updates, results
// and schedules work with it in the same way.
type Client struct {
	pawl.Client
	http *httpapi.Client
}

// ClientConfig configures a [Client]. Its zero value is one for a server on this machine that asks for no token.
type ClientConfig struct {
	Token string // the token of pawl token create; it is sent over https, or to this machine
	// Transport sends the requests. Default: one with the system's certificates and the proxy of the environment.
	Transport   http.RoundTripper
	Codec       pawl.Codec        // default pawl.JSON
	Propagators []pawl.Propagator // as in pawl.Config
}

// Connect returns the client of a server: http://127.0.0.1:7295. It does not ask the server for anything yet; a server
// that cannot be reached is pawl.ErrClosed of the first call.
//
// The server has the workflows: pawl server and pawl dev have flows, the server of a Go program ([Handler]) has the
// workflows of that program. A flow that this program has as a document goes along with its starts. Errors:
// pawl.ErrInvalid.
func Connect(server string, cfg ClientConfig) (*Client, error) {
	c, err := clientOf(server, cfg.Token, cfg.Transport)
	if err != nil {
		return nil, err
	}
	made, ok := served.Connect(c, pawl.Config{Codec: cfg.Codec, Propagators: cfg.Propagators}).(pawl.Client)
	if !ok {
		return nil, fmt.Errorf("pawl: package pawl made no client: the versions of the two differ")
	}
	return &Client{made, c}, nil
}

// Close closes idle connections. Runs go on.
func (c *Client) Close() error {
	if c == nil || c.http == nil {
		return fmt.Errorf("pawl: %w: the client is nil, or nobody has made it: use Connect", pawl.ErrInvalid)
	}
	c.http.Close()
	return nil
}

// clientOf returns the client of a server on the wire.
func clientOf(server, token string, transport http.RoundTripper) (*httpapi.Client, error) {
	c, err := httpapi.New(server)
	if err != nil {
		return nil, api.Spoken(err)
	}
	if transport != nil {
		c.Through(guarded{transport})
	}
	c.KeyStarts()
	return c, api.Spoken(c.Show(token, nil))
}

// guarded sends requests by a transport of the program. A panic of it is the error of that request.
type guarded struct{ http.RoundTripper }

func (g guarded) RoundTrip(r *http.Request) (res *http.Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			res, err = nil, fmt.Errorf("the transport panicked: %v", v)
		}
	}()
	return g.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections closes idle connections.
func (g guarded) CloseIdleConnections() {
	(&http.Client{Transport: g.RoundTripper}).CloseIdleConnections()
}
