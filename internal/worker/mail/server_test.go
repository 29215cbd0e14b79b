package mail

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// server is a small SMTP server on the loopback device. It takes one connection after the other.
type server struct {
	implicit bool              // TLS from the first byte
	plain    bool              // no TLS at all
	answers  map[string]string // the answers to commands that begin with the key
	silent   bool              // it accepts connections and says nothing

	address string
	roots   *x509.CertPool
	trust   *tls.Config

	mu       sync.Mutex
	commands []string
	messages []string
	reached  chan struct{} // closed at the first connection
}

func (s *server) start(t *testing.T) *server {
	t.Helper()
	s.trust, s.roots = certificate(t)
	s.reached = make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for first := true; ; first = false {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if first {
				close(s.reached)
			}
			if s.silent {
				_, _ = io.Copy(io.Discard, conn)
			} else {
				s.serve(conn)
			}
			_ = conn.Close()
		}
	}()
	return s
}

func (s *server) serve(conn net.Conn) {
	secured := s.implicit
	if secured {
		conn = tls.Server(conn, s.trust)
	}
	text := textproto.NewConn(conn)
	say := func(line string) { _ = text.PrintfLine("%s", line) }
	say("220 ready")
	for {
		line, err := text.ReadLine()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.commands = append(s.commands, line)
		s.mu.Unlock()
		verb, _, _ := strings.Cut(line, " ")
		answer := s.answer(line)
		switch {
		case answer != "":
			say(answer)
		case verb == "EHLO" && !secured && !s.plain:
			say("250-here")
			say("250 STARTTLS")
		case verb == "EHLO":
			say("250-here")
			say("250 AUTH PLAIN")
		case verb == "STARTTLS":
			say("220 go on")
			conn = tls.Server(conn, s.trust)
			text, secured = textproto.NewConn(conn), true
			say = func(line string) { _ = text.PrintfLine("%s", line) }
		case verb == "AUTH":
			say("235 welcome")
		case verb == "DATA":
			say("354 go on")
			data, err := text.ReadDotBytes()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.messages = append(s.messages, string(data))
			s.mu.Unlock()
			say("250 taken")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

// seen returns what the server was told and sent.
func (s *server) seen() (commands, messages []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commands), slices.Clone(s.messages)
}

func (s *server) answer(line string) string {
	for begin, answer := range s.answers {
		if strings.HasPrefix(line, begin) {
			return answer
		}
	}
	return ""
}

// certificate makes a certificate for 127.0.0.1, and what trusts it.
func certificate(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12,
	}, roots
}
