package webhook

import (
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/internal/reach"
)

// The limits on requests to a receiver and on its answers.
const (
	shakeWithin = 10 * time.Second // the handshake of TLS
	mostHeader  = 64 << 10
	idleFor     = 30 * time.Second
	mostIdle    = 64
)

// transport returns how messages are sent. It uses no proxy: the policy would see the proxy's address only.
func transport(p *reach.Policy) *http.Transport {
	return &http.Transport{
		DialContext:         p.Dialer().DialContext,
		TLSHandshakeTimeout: shakeWithin, MaxResponseHeaderBytes: mostHeader, ForceAttemptHTTP2: true,
		DisableCompression: true,
		MaxIdleConns:       mostIdle, MaxIdleConnsPerHost: inFlightEach, IdleConnTimeout: idleFor,
	}
}
