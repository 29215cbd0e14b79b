package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/journal"
)

// The requests of nodes among each other, beside those of the API.
const (
	lookPath     = "/cluster/look"     // something has changed: read the table of nodes
	expectPath   = "/cluster/expect"   // messages were sent to ?partition=N
	webhooksPath = "/cluster/webhooks" // webhooks or deliveries have changed: read them again
	seenPath     = "/cluster/seen"     // GET: what the node has seen of the database

	hopsHeader = "Pawl-Hops"
	mostHops   = 3 // the bound of one request; it takes more hops only while partitions move all the time

	hintWithin  = 2 * time.Second // a hint that takes longer helps nobody
	dialWithin  = 2 * time.Second
	silentFor   = time.Second // the time until a node that says nothing is asked whether it is there
	answerPings = 2 * time.Second
)

// Nodes reaches the other nodes, and answers them.
type Nodes struct {
	keys      *Keys
	log       *slog.Logger
	transport *http.Transport
	namespace string // the namespace of its requests; empty: the default one

	mu      sync.Mutex
	clients map[string]*httpapi.Client // the clients by address
	hints   sync.WaitGroup
	ctx     context.Context // the context of hints
	cancel  context.CancelFunc
}

// Dial connects to an address, as net.Dialer.DialContext does.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// NewNodes returns what reaches nodes with the same secret. nil as dial is the network of this machine.
func NewNodes(keys *Keys, dial Dial, log *slog.Logger) *Nodes {
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialWithin}).DialContext
	}
	n := &Nodes{keys: keys, log: log, clients: map[string]*httpapi.Client{}}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.transport = &http.Transport{
		TLSClientConfig: keys.client(), ForceAttemptHTTP2: true, TLSHandshakeTimeout: dialWithin,
		DialContext: dial, IdleConnTimeout: time.Minute,
		HTTP2: &http.HTTP2Config{SendPingTimeout: silentFor, PingTimeout: answerPings},
	}
	return n
}

// In returns what reaches the nodes that have a namespace, and asks for what is in that.
func (n *Nodes) In(namespace string) *Nodes {
	in := &Nodes{
		keys: n.keys, log: n.log, transport: n.transport, namespace: namespace, clients: map[string]*httpapi.Client{},
	}
	in.ctx, in.cancel = context.WithCancel(context.Background())
	return in
}

type hopsKey struct{}

// forwarded reports whether a request comes from another node.
func forwarded(ctx context.Context) bool {
	hops, _ := ctx.Value(hopsKey{}).(int)
	return hops > 0
}

// RoundTrip implements http.RoundTripper: it says how far a request has come.
func (n *Nodes) RoundTrip(r *http.Request) (*http.Response, error) {
	hops, _ := r.Context().Value(hopsKey{}).(int)
	if hops >= mostHops {
		return nil, &net.OpError{Op: "dial", Err: errors.New("partitions move too fast for the request to follow")}
	}
	r = r.Clone(r.Context())
	r.Header.Set(hopsHeader, strconv.Itoa(hops+1))
	if n.namespace != "" {
		r.Header.Set(httpapi.NamespaceHeader, n.namespace)
	}
	res, err := n.transport.RoundTrip(r)
	if err != nil && foreign(err) {
		// Nothing was sent. The client knows that of errors while it dials.
		err = fmt.Errorf("the node at %s has another cluster secret: %w", r.URL.Host, err)
		err = &net.OpError{Op: "dial", Err: err}
	}
	return res, err
}

// Client returns the client of a node.
func (n *Nodes) Client(node cluster.Node) (*httpapi.Client, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.clients[node.Address]; c != nil {
		return c, nil
	}
	c, err := httpapi.New("https://" + node.Address)
	if err != nil {
		return nil, err
	}
	c.Through(n)
	n.clients[node.Address] = c
	return c, nil
}

// Hints is what other nodes tell this one.
type Hints struct {
	Look     func()                          // something has changed in the table of nodes
	Expect   func(partition int)             // messages for a partition were sent
	Webhooks func(ctx context.Context) error // webhooks or deliveries have changed. nil: this node sends none
	Seen     func() journal.Seen             // what this node has seen of the database
}

// Handler answers the requests of other nodes. next answers the API, and in returns the receiver of hints about a
// namespace; ok is false if this node does not have it.
func (n *Nodes) Handler(next http.Handler, in func(namespace string) (h Hints, ok bool)) http.Handler {
	mux := http.NewServeMux()
	hint := func(path string, hear func(h Hints, r *http.Request) (status int)) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			status := http.StatusNotFound
			if h, ok := in(r.Header.Get(httpapi.NamespaceHeader)); ok {
				status = hear(h, r)
			}
			w.WriteHeader(status)
		})
	}
	hint(lookPath, func(h Hints, _ *http.Request) int {
		h.Look()
		return http.StatusNoContent
	})
	hint(webhooksPath, func(h Hints, r *http.Request) int {
		if h.Webhooks != nil {
			if err := h.Webhooks(r.Context()); err != nil {
				n.log.Warn("webhooks that another node has changed cannot be read; this is tried again", "error", err)
				return http.StatusServiceUnavailable
			}
		}
		return http.StatusNoContent
	})
	hint(expectPath, func(h Hints, r *http.Request) int {
		p, err := strconv.Atoi(r.URL.Query().Get("partition"))
		if err != nil {
			return http.StatusBadRequest
		}
		h.Expect(p)
		return http.StatusNoContent
	})
	mux.HandleFunc("GET "+seenPath, func(w http.ResponseWriter, r *http.Request) {
		h, ok := in(r.Header.Get(httpapi.NamespaceHeader))
		if !ok || h.Seen == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		seen := h.Seen()
		text, err := seen.Encode()
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // the other node is gone if that fails
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		hops, _ := strconv.Atoi(r.Header.Get(hopsHeader)) // no header, 0: it comes from outside the cluster
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), hopsKey{}, hops)))
	})
	return mux
}

// Server returns what answers other nodes on a listener of [Nodes.Listen].
func (n *Nodes) Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, TLSConfig: n.keys.server(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelWarn),
	}
}

// Look tells other nodes to read the table of nodes, and waits until they have answered or that takes too long.
func (n *Nodes) Look(ctx context.Context, own string, s cluster.Snapshot) {
	n.tell(ctx, own, s, lookPath)
}

// Webhooks tells other nodes to read webhooks and deliveries again, and waits likewise.
func (n *Nodes) Webhooks(ctx context.Context, own string, s cluster.Snapshot) {
	n.tell(ctx, own, s, webhooksPath)
}

func (n *Nodes) tell(ctx context.Context, own string, s cluster.Snapshot, path string) {
	var told sync.WaitGroup
	for _, node := range s.Nodes {
		if node.Alive && node.ID != own {
			told.Go(func() { n.hint(ctx, node, path) })
		}
	}
	told.Wait()
}

// Expect tells a node that messages for one of its partitions were sent. It does not wait.
func (n *Nodes) Expect(node cluster.Node, partition int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() == nil {
		n.hints.Go(func() { n.hint(n.ctx, node, expectPath+"?partition="+strconv.Itoa(partition)) })
	}
}

// hint tells a node something that it would find out later anyway.
func (n *Nodes) hint(ctx context.Context, node cluster.Node, path string) {
	ctx, cancel := context.WithTimeout(ctx, hintWithin)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+node.Address+path, http.NoBody)
	if err == nil {
		var res *http.Response
		if res, err = n.RoundTrip(r); err == nil {
			err = res.Body.Close()
		}
	}
	if err != nil && ctx.Err() == nil {
		n.log.Debug("a node cannot be notified; it finds out later", "node", node.ID, "address", node.Address,
			"error", err)
	}
}

// Check asks a node whether it answers, to say early that an address or a secret is wrong.
func (n *Nodes) Check(ctx context.Context, node cluster.Node) error {
	c, err := n.Client(node)
	if err == nil {
		err = c.Ready(ctx)
	}
	if api.CodeOf(err) == api.CodeStalled {
		return nil
	}
	return err
}

// Close gives up all connections.
func (n *Nodes) Close() {
	n.mu.Lock()
	n.cancel()
	n.mu.Unlock()
	n.hints.Wait()
	n.transport.CloseIdleConnections()
}
