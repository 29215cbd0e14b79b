package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/worker"
)

// Program serves workflows: it has their functions, and a host that calls them.
type Program struct {
	Workflows []Served
	Host      *body.Host
	Slots     int           // local steps that run at once
	Grace     time.Duration // how long one may take to stop
	Log       *slog.Logger
}

// HolderConfig configures a holder. All but Name is needed.
type HolderConfig struct {
	Server api.Bodies
	Name   string // the name for people
	Program
	// DrainWithin is how long attempts that run may take to end when the holder stops.
	DrainWithin time.Duration
}

// Holder serves workflows for a server, or for all nodes of a cluster. For the host of its bodies it is the engine.
type Holder struct {
	cfg HolderConfig

	// calls is held while leases come and news are brought, and while a term ends. So a call of a body that was
	// announced for one lease is never taken for that of the next one, whichever nodes they are of. It is locked before
	// all else.
	calls sync.Mutex

	mu    sync.Mutex
	terms []*term // the terms with the nodes that it has joined at present
	where map[core.RunID]*term
	runs  int // how many terms there were, as the generation of bodies
}

var (
	_ body.EngineCalls = (*Holder)(nil)
	_ worker.Confirmer = reporter{}
)

// NewHolder returns a holder.
func NewHolder(cfg HolderConfig) *Holder {
	h := &Holder{cfg: cfg, where: map[core.RunID]*term{}}
	cfg.Host.Attach(h)
	cfg.Host.Follow(body.Follow{Gone: h.onEnded, Again: h.requestCall, Stopped: h.onStuck})
	return h
}

// term is the time between a join of a node and its end. Messages that were on their way then are void.
type term struct {
	holder *Holder
	node   string // empty: the server is in no cluster
	slots  int    // the slots for attempts of that node's runs
	id     string
	pool   *worker.Pool
	ctx    context.Context
	end    context.CancelCauseFunc

	mu     sync.Mutex
	leases map[core.RunID]*held
	live   map[core.Token]bool // attempts
	tasks  map[core.RunID]int  // how many of them each run has
	out    []outgoing
	more   chan struct{}  // has room for one: there is something to send
	idle   chan struct{}  // the same: an attempt has ended
	offers sync.WaitGroup // updates that are with bodies
}

// held is a lease from the view of its holder.
type held struct {
	term   *term
	number uint64
	seen   atomic.Int64  // news and updates that the body has got
	over   chan struct{} // closed at its end
}

// outgoing is a message to the server.
type outgoing struct {
	up
	done func(error) // nil: the answer is not needed
}

const (
	pollWait     = 4 * time.Second // less than the silence that a server allows
	answerWithin = 10 * time.Second
	firstRetry   = 50 * time.Millisecond
	lastRetry    = 2 * time.Second
)

// errOver ends a term that the server no longer knows.
var errOver = errors.New("the server no longer knows this process")

// Run serves until ctx is done. Then the leases go to others, and running attempts may end. A server that cannot be
// reached is asked again until it answers. It returns an error if the server refuses the workflows, or work did not
// stop.
func (h *Holder) Run(ctx context.Context) error {
	nodes, err := h.nodes(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	serving := map[string]context.CancelFunc{}
	for ctx.Err() == nil {
		for node, end := range serving {
			if !slices.Contains(nodes, node) {
				end()
				delete(serving, node)
			}
		}
		slots := (h.cfg.Slots + len(nodes) - 1) / max(len(nodes), 1)
		for _, node := range nodes {
			if serving[node] == nil {
				var gone context.Context
				gone, serving[node] = context.WithCancel(context.WithoutCancel(ctx))
				g.Go(func() error { return h.serve(ctx, gone, node, slots) })
			}
		}
		nodes = h.others(ctx, nodes)
	}
	err = g.Wait()
	for _, end := range serving {
		end()
	}
	return err
}

// nodes returns the nodes of the server's cluster; a server that is in none is one without a name. It asks until the
// server answers.
func (h *Holder) nodes(ctx context.Context) ([]string, error) {
	for retry := time.Duration(0); ctx.Err() == nil; {
		var out api.BodiesNodes
		err := within(ctx, answerWithin, func(ctx context.Context) (err error) {
			out, err = h.cfg.Server.BodiesNodes(ctx, api.BodiesNodesRequest{})
			return err
		})
		switch {
		case err == nil && len(out.Nodes) == 0:
			return []string{""}, nil
		case err == nil:
			return out.Nodes, nil
		case ctx.Err() != nil:
		case !temporary(err):
			return nil, err
		case retry == 0:
			h.cfg.Log.Warn("the server takes no workflows at present; asking again", "error", err)
		}
		retry = min(max(2*retry, firstRetry), lastRetry)
		pause(ctx, retry)
	}
	return nil, nil
}

// nodesWait is how long a server may take to answer that the nodes are still the same.
const nodesWait = 30 * time.Second

// others waits until the set of nodes changes, or ctx is done.
func (h *Holder) others(ctx context.Context, known []string) []string {
	if slices.Equal(known, []string{""}) {
		<-ctx.Done()
		return known
	}
	for retry := time.Duration(0); ctx.Err() == nil; {
		var out api.BodiesNodes
		err := within(ctx, nodesWait+answerWithin, func(ctx context.Context) (err error) {
			out, err = h.cfg.Server.BodiesNodes(ctx, api.BodiesNodesRequest{
				Known: known, Wait: api.Duration(nodesWait),
			})
			return err
		})
		if err == nil && len(out.Nodes) > 0 && !slices.Equal(out.Nodes, known) {
			return out.Nodes
		}
		if retry = 0; err != nil {
			retry = min(max(2*retry, firstRetry), lastRetry)
			pause(ctx, retry)
		}
	}
	return known
}

// serve serves one node until ctx is done, or the node is gone: then its messages about its runs are void at once.
func (h *Holder) serve(ctx, gone context.Context, node string, slots int) error {
	joining, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(gone, cancel)()
	for joining.Err() == nil {
		t := h.newTerm(gone, node, slots)
		if err := t.join(joining); err != nil {
			t.end(err)
			if joining.Err() == nil {
				return err
			}
			break
		}
		h.begin(t)
		err := t.serve(ctx)
		if closeErr := h.close(t); closeErr != nil {
			return closeErr
		}
		if err != nil && !errors.Is(err, errOver) && gone.Err() == nil {
			return err
		}
	}
	return nil
}

// newTerm returns a term that has not begun. ctx has its values.
func (h *Holder) newTerm(ctx context.Context, node string, slots int) *term {
	t := &term{
		holder: h, node: node, slots: slots, id: rand.Text(), leases: map[core.RunID]*held{},
		live: map[core.Token]bool{}, tasks: map[core.RunID]int{},
		more: make(chan struct{}, 1), idle: make(chan struct{}, 1),
	}
	t.ctx, t.end = context.WithCancelCause(ctx)
	t.pool = worker.NewPool(worker.PoolConfig{
		Executors: map[string]worker.Executor{body.TypeLocal: h.cfg.Host, body.TypeHook: h.cfg.Host},
		Slots:     map[string]int{body.TypeLocal: slots, body.TypeHook: slots},
		AnyQueue:  true, Reporter: reporter{h.cfg.Host, t}, Log: h.cfg.Log,
	})
	return t
}

// begin makes a term valid.
func (h *Holder) begin(t *term) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.terms = append(h.terms, t)
}

// close ends a term: its bodies are unwound, and its attempts stop.
func (h *Holder) close(t *term) error {
	h.unwind(t)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), 2*h.cfg.Grace)
	defer cancel()
	err := t.pool.Close(ctx)
	t.end(errOver)
	t.offers.Wait()
	t.drop()
	return err
}

// unwind unwinds the bodies of a term, which counts no more.
func (h *Holder) unwind(t *term) {
	h.calls.Lock()
	defer h.calls.Unlock()
	h.mu.Lock()
	h.terms = slices.DeleteFunc(h.terms, func(other *term) bool { return other == t })
	own := map[core.RunID]bool{}
	for run, of := range h.where {
		if of == t {
			own[run] = true
			delete(h.where, run)
		}
	}
	h.runs++
	generation := h.runs
	h.mu.Unlock()
	h.cfg.Host.Reset(generation, func(run core.RunID) bool { return own[run] })
}

// current returns the term with the node that has a run, or nil if there is none.
func (h *Holder) current(run core.RunID) *term {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.where[run]; t != nil || len(h.terms) != 1 {
		return t
	}
	return h.terms[0]
}

// counts reports whether a term has begun and not ended.
func (h *Holder) counts(t *term) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.terms, t)
}

// bind notes that a node sends news of a run, which another one may have had before. While that one has a lease, a node
// that has no more than an attempt does not count.
func (h *Holder) bind(run core.RunID, t *term) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before := h.where[run]; before == nil || before.lease(run) == nil || t.lease(run) != nil {
		h.where[run] = t
	}
}

// unbind notes that a lease or an attempt of a run has ended.
func (h *Holder) unbind(run core.RunID, t *term) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.where[run] == t && !t.has(run) {
		delete(h.where, run)
	}
}

// has reports whether there is a lease of a run, or an attempt at work.
func (t *term) has(run core.RunID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leases[run] != nil || t.tasks[run] > 0
}

// Do implements body.EngineCalls. The node that made an attempt learns of its end, also if another one has the run by
// now. That node gets the end as well: it does not know the attempt, so it refuses the body's reaction to it.
func (h *Holder) Do(run core.RunID, _ *engine.Body, inputs []core.Input, done func(error)) {
	t := h.current(run)
	for _, in := range inputs {
		if made := h.madeBy(run, in); made != nil && made != t {
			made.report(run, in)
		}
	}
	if t == nil {
		if done != nil {
			go done(errOver) // the caller holds a lock that it needs
		}
		return
	}
	t.put(outgoing{up{Kind: upDecide, Run: run, Inputs: inputs}, done})
	for _, in := range inputs {
		t.ended(run, in)
	}
}

func (h *Holder) Consult(run core.RunID) { h.put(up{Kind: upConsult, Run: run}) }

func (h *Holder) Begin(run core.RunID, step core.StepID) {
	h.put(up{Kind: upBegin, Run: run, Step: step})
}

// Rematch implements body.EngineCalls: all workflows are known from the start.
func (h *Holder) Rematch() {}

// Report implements body.EngineCalls: it takes the end of an attempt that a body has handed on. What comes after the
// term of the attempt is void.
func (h *Holder) Report(run core.RunID, in core.Input) {
	if made := h.madeBy(run, in); made != nil {
		made.report(run, in)
	}
}

// Confirm implements body.EngineCalls. A term's reporter confirms what its node has made; other attempts have ended.
func (h *Holder) Confirm(_ core.RunID, _ core.Input, done func(ended bool)) { go done(true) }

// onEnded notes that a call of a body has ended: its lease is returned, if it is still that of the run.
func (h *Holder) onEnded(run core.RunID, of any) {
	l, told := of.(*held)
	if !told || !l.term.forget(run, l) {
		return
	}
	l.term.put(outgoing{up: up{Kind: upEnd, Run: run, Lease: l.number, Seen: int(l.seen.Load())}})
	h.unbind(run, l.term)
}

// requestCall asks the node that has the run now, else the one of its last lease, to call the run's body again.
func (h *Holder) requestCall(run core.RunID, of any) {
	t := h.current(run)
	if l, told := of.(*held); told && t == nil {
		t = l.term
	}
	if t != nil {
		t.put(outgoing{up: up{Kind: upConsult, Run: run}})
	}
}

// onStuck reports that a body cannot go on.
func (h *Holder) onStuck(run core.RunID, err error) {
	h.put(up{Kind: upProblem, Run: run, Text: fmt.Sprintf("%v (in %s)", err, h.cfg.Name)})
}

func (h *Holder) put(u up) {
	if t := h.current(u.Run); t != nil {
		t.put(outgoing{up: u})
	}
}

// lease returns the lease that a run has, or nil if there is none.
func (t *term) lease(run core.RunID) *held {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leases[run]
}

// forget forgets a lease. It reports whether the run had it still.
func (t *term) forget(run core.RunID, l *held) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l == nil || t.leases[run] != l {
		return false
	}
	delete(t.leases, run)
	close(l.over)
	return true
}

// put queues something for the server, in the name of the lease that the run has.
func (t *term) put(o outgoing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.leases[o.Run]; l != nil && o.Lease == 0 {
		o.Lease = l.number
	}
	t.out = append(t.out, o)
	wake(t.more)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// drop tells those who wait for answers that none will come.
func (t *term) drop() {
	t.mu.Lock()
	out := t.out
	t.out = nil
	t.mu.Unlock()
	for _, o := range out {
		if o.done != nil {
			o.done(errOver)
		}
	}
}
