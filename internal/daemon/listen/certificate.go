package listen

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// Certificate is a server's certificate, in files that may change while the server runs.
type Certificate struct {
	cert, key string
	log       *slog.Logger
	now       func() time.Time

	mu     sync.Mutex
	loaded *tls.Certificate
	state  [2]fileState // the state of the files when they were last read
	looked time.Time
}

// fileState detects whether a file has changed.
type fileState struct {
	changed time.Time
	size    int64
}

// lookEvery is how often handshakes look whether the files have changed.
const lookEvery = time.Second

// ReadCertificate reads a certificate and its key. One that does not count at present is refused.
func ReadCertificate(cert, key string, log *slog.Logger, now func() time.Time) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, log: log, now: now}
	c.state = c.states()
	var err error
	if c.loaded, err = c.read(); err != nil {
		return nil, err
	}
	c.looked = now()
	return c, nil
}

func (c *Certificate) read() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("the certificate %s with the key %s: %w", c.cert, c.key, err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("the certificate %s: %w", c.cert, err)
	}
	switch now := c.now(); {
	case now.After(leaf.NotAfter):
		return nil, fmt.Errorf("the certificate %s expired at %s: no client would trust it; renew it", c.cert,
			leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return nil, fmt.Errorf("the certificate %s counts from %s on; is the clock of this machine right?", c.cert,
			leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	pair.Leaf = leaf
	return &pair, nil
}

func (c *Certificate) states() (out [2]fileState) {
	for i, name := range []string{c.cert, c.key} {
		if info, err := os.Stat(name); err == nil {
			out[i] = fileState{info.ModTime(), info.Size()}
		}
	}
	return out
}

// Over returns a listener whose connections are encrypted with the certificate, and strict; see [Strict].
func (c *Certificate) Over(l net.Listener) net.Listener {
	return encrypt(l, &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: c.current, NextProtos: []string{"h2", "http/1.1"},
	})
}

// current returns the certificate for a handshake.
func (c *Certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	due := c.now().Sub(c.looked) >= lookEvery
	c.mu.Unlock()
	if due {
		c.Look()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.loaded, nil
}

// Left returns for how long the certificate counts.
func (c *Certificate) Left() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.loaded.Leaf.NotAfter.Sub(c.now())
}

// Look reads the files again if they have changed. While they do not fit each other, as in the middle of a renewal, the
// old certificate stays.
func (c *Certificate) Look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked = c.now()
	state := c.states()
	if state == c.state {
		return
	}
	c.state = state
	loaded, err := c.read()
	if err != nil {
		c.log.Error("the certificate was not read again; the old one stays", "id", "certificate-not-read", "error", err)
		return
	}
	c.loaded = loaded
	c.log.Info("the certificate was read again", "file", c.cert)
}
