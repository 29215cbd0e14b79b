package wire

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/cluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	one   = []byte(strings.Repeat("1", 32))
	other = []byte(strings.Repeat("2", 32))
)

func keysOf(t *testing.T, secret []byte) *Keys {
	t.Helper()
	k, err := NewKeys(secret)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// listen makes a node with a secret that answers, and returns how others know it.
func listen(t *testing.T, secret []byte, next http.Handler, look func(), expect func(int)) cluster.Node {
	t.Helper()
	n := NewNodes(keysOf(t, secret), nil, slog.New(slog.DiscardHandler))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hints := func(string) (Hints, bool) { return Hints{Look: look, Expect: expect}, true }
	s, ended := n.Server(n.Handler(next, hints)), make(chan error)
	go func() { ended <- s.ServeTLS(l, "", "") }()
	t.Cleanup(func() {
		_ = s.Close() // it says that it was closed, as the next line
		<-ended
		n.Close()
	})
	return cluster.Node{ID: "n", Address: l.Addr().String(), Alive: true}
}

func nodesOf(t *testing.T, secret []byte) *Nodes {
	t.Helper()
	n := NewNodes(keysOf(t, secret), nil, slog.New(slog.DiscardHandler))
	t.Cleanup(n.Close)
	return n
}

func refuse(http.ResponseWriter, *http.Request) { panic("nobody asks this") }

// TestSecret lets nodes with the same secret talk, and nobody else in.
func TestSecret(t *testing.T) {
	ready := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("asked over %s", r.Proto)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"status": "ok"})
	})
	node := listen(t, one, ready, func() {}, func(int) {})
	if err := nodesOf(t, one).Check(t.Context(), node); err != nil {
		t.Error(err)
	}
	c, err := nodesOf(t, other).Client(node)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Send(t.Context(), "a-run", api.SendRequest{Name: "n"})
	if api.CodeOf(err) != api.CodeClosed || !strings.Contains(err.Error(), "has another cluster secret") {
		t.Errorf("a node with another secret: %v", err)
	}
	// Who has no certificate of the cluster is let in by nobody, whatever it trusts.
	plain := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13},
	}}
	defer plain.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+node.Address+"/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := plain.Do(req)
	if err == nil {
		_ = res.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("without a certificate: %v", err)
	}
}

// TestHops ends a request that nodes send to each other without end.
func TestHops(t *testing.T) {
	n := nodesOf(t, one)
	var node cluster.Node
	var asked atomic.Int32
	forward := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		c, err := n.Client(node)
		if err == nil {
			err = c.Ready(r.Context())
		}
		if api.CodeOf(err) != api.CodeClosed && api.CodeOf(err) != api.CodeInternal {
			t.Error(err)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	node = listen(t, one, forward, func() {}, func(int) {})
	if err := n.Check(t.Context(), node); err == nil || asked.Load() != mostHops {
		t.Errorf("asked %d times, %v", asked.Load(), err)
	}
}

// TestHints tells a node to look, and that messages have come.
func TestHints(t *testing.T) {
	looked, expected := make(chan bool, 1), make(chan int, 1)
	node := listen(t, one, http.HandlerFunc(refuse), func() { looked <- true }, func(p int) { expected <- p })
	n := nodesOf(t, one)
	n.Look(t.Context(), "own", cluster.Snapshot{Nodes: []cluster.Node{node, {ID: "own", Alive: true}, {ID: "dead"}}})
	<-looked
	n.Expect(node, 7)
	if p := <-expected; p != 7 {
		t.Errorf("partition %d was told instead of 7", p)
	}
}

// TestUnreachable says soon and clearly that an address does not answer; nothing was sent.
func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	node := cluster.Node{ID: "gone", Address: l.Addr().String()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err = nodesOf(t, one).Check(ctx, node)
	if api.CodeOf(err) != api.CodeClosed || !strings.Contains(err.Error(), node.Address+" cannot be reached") {
		t.Error(err)
	}
}

// TestShortSecret refuses a secret that could be guessed.
func TestShortSecret(t *testing.T) {
	if _, err := NewKeys([]byte("secret")); err == nil || !strings.Contains(err.Error(), "32 or more at random") {
		t.Error(err)
	}
	a, b, again := keysOf(t, one), keysOf(t, other), keysOf(t, one)
	if a.Fingerprint == b.Fingerprint || a.Fingerprint != again.Fingerprint {
		t.Error(a.Fingerprint, b.Fingerprint, again.Fingerprint)
	}
}
