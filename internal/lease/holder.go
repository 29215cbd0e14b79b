package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/worker"
)

// Program is what serves workflows: their functions, and a host that calls them.
type Program struct {
	Workflows []Workflow
	Host      *body.Host
	Slots     int           // local steps that run at once
	Grace     time.Duration // how long one may take to stop
	Log       *slog.Logger
}

// HolderConfig configures a holder. All but Name is needed.
type HolderConfig struct {
	Server api.Bodies
	Name   string // for people
	Program
	// DrainWithin is how long attempts that run may take to end when the holder stops.
	DrainWithin time.Duration
}

// Holder serves workflows for a server. For the host of its bodies it is the engine.
type Holder struct {
	cfg HolderConfig

	mu   sync.Mutex
	term *term // nil: it has joined no server at present
	runs int   // how many terms there were, as the generation of bodies
}

var (
	_ body.EngineCalls = (*Holder)(nil)
	_ worker.Confirmer = reporter{}
)

// NewHolder returns a holder.
func NewHolder(cfg HolderConfig) *Holder {
	h := &Holder{cfg: cfg}
	cfg.Host.Attach(h)
	cfg.Host.Follow(h.gone, h.stopped)
	return h
}

// term is the time between a join and its end. What was on its way then is void.
type term struct {
	holder *Holder
	id     string
	pool   *worker.Pool
	ctx    context.Context
	end    context.CancelCauseFunc

	mu     sync.Mutex
	leases map[core.RunID]*held
	live   map[core.Token]bool // attempts
	out    []outgoing
	more   chan struct{}  // has room for one: there is something to send
	idle   chan struct{}  // the same: an attempt has ended
	offers sync.WaitGroup // updates that are with bodies
}

// held is a lease as its holder knows it.
type held struct {
	number uint64
	seen   int           // news and updates
	over   chan struct{} // closed at its end
}

// outgoing is something to tell the server.
type outgoing struct {
	up
	done func(error) // nil: nobody wants the answer
}

const (
	pollWait     = 4 * time.Second // less than the silence that a server allows
	answerWithin = 10 * time.Second
	firstRetry   = 50 * time.Millisecond
	lastRetry    = 2 * time.Second
)

// errOver ends a term that the server does not know any more.
var errOver = errors.New("the server does not know this process any more")

// Run serves until ctx is done. Then the leases go to others, and what runs may end. A server that cannot be reached is
// asked again until it answers. It returns an error if the server refuses the workflows, or work did not stop.
func (h *Holder) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		t := h.newTerm(context.WithoutCancel(ctx))
		if err := t.join(ctx); err != nil {
			t.end(err)
			if ctx.Err() == nil {
				return err
			}
			break
		}
		h.begin(t)
		err := t.serve(ctx)
		if closeErr := h.close(t); closeErr != nil {
			return closeErr
		}
		if err != nil && !errors.Is(err, errOver) {
			return err
		}
	}
	return nil
}

// newTerm returns a term that has not begun. ctx has its values.
func (h *Holder) newTerm(ctx context.Context) *term {
	t := &term{
		holder: h, id: rand.Text(), leases: map[core.RunID]*held{}, live: map[core.Token]bool{},
		more: make(chan struct{}, 1), idle: make(chan struct{}, 1),
	}
	t.ctx, t.end = context.WithCancelCause(ctx)
	t.pool = worker.NewPool(worker.PoolConfig{
		Executors: map[string]worker.Executor{body.TypeLocal: h.cfg.Host, body.TypeHook: h.cfg.Host},
		Slots:     map[string]int{body.TypeLocal: h.cfg.Slots, body.TypeHook: h.cfg.Slots},
		AnyQueue:  true, Reporter: reporter{h.cfg.Host, t}, Log: h.cfg.Log,
	})
	return t
}

// begin makes a term the one that counts.
func (h *Holder) begin(t *term) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.term = t
}

// close ends a term: its bodies are unwound, and its attempts stop.
func (h *Holder) close(t *term) error {
	h.mu.Lock()
	h.term = nil
	h.runs++
	generation := h.runs
	h.mu.Unlock()
	h.cfg.Host.Reset(generation, func(core.RunID) bool { return true })
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), 2*h.cfg.Grace)
	defer cancel()
	err := t.pool.Close(ctx)
	t.end(errOver)
	t.offers.Wait()
	t.drop()
	return err
}

// current returns the term that counts; nil: there is none.
func (h *Holder) current() *term {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.term
}

// Do implements body.EngineCalls.
func (h *Holder) Do(run core.RunID, _ *engine.Body, inputs []core.Input, done func(error)) {
	t := h.current()
	if t == nil {
		if done != nil {
			go done(errOver) // the caller holds a lock that it needs
		}
		return
	}
	t.ended(run, inputs...)
	t.put(outgoing{up{Kind: upDecide, Run: run, Inputs: inputs}, done})
}

// Consult implements body.EngineCalls.
func (h *Holder) Consult(run core.RunID) { h.put(up{Kind: upConsult, Run: run}) }

// Begin implements body.EngineCalls.
func (h *Holder) Begin(run core.RunID, step core.StepID) {
	h.put(up{Kind: upBegin, Run: run, Step: step})
}

// Rematch implements body.EngineCalls: all workflows are known from the start.
func (h *Holder) Rematch() {}

// Report implements body.EngineCalls.
func (h *Holder) Report(run core.RunID, in core.Input) {
	if t := h.current(); t != nil {
		t.ended(run, in)
		t.put(outgoing{up: up{Kind: upReport, Run: run, Inputs: []core.Input{in}}})
	}
}

// Confirm implements body.EngineCalls.
func (h *Holder) Confirm(run core.RunID, in core.Input, done func(ended bool)) {
	t := h.current()
	if t == nil {
		go done(true)
		return
	}
	t.put(outgoing{up{Kind: upConfirm, Run: run, Inputs: []core.Input{in}}, func(err error) { done(err != nil) }})
}

// gone says that a call of a body has ended: its lease goes back.
func (h *Holder) gone(run core.RunID) {
	t := h.current()
	if t == nil {
		return
	}
	t.mu.Lock()
	l := t.leases[run]
	delete(t.leases, run)
	if l != nil {
		close(l.over)
	}
	t.mu.Unlock()
	if l != nil {
		t.put(outgoing{up: up{Kind: upEnd, Run: run, Lease: l.number, Seen: l.seen}})
	}
}

// stopped says that a body cannot go on.
func (h *Holder) stopped(run core.RunID, err error) {
	h.put(up{Kind: upProblem, Run: run, Text: fmt.Sprintf("%v (in %s)", err, h.cfg.Name)})
}

func (h *Holder) put(u up) {
	if t := h.current(); t != nil {
		t.put(outgoing{up: u})
	}
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

// ended notes the ends of attempts.
func (t *term) ended(run core.RunID, inputs ...core.Input) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, in := range inputs {
		switch in := in.(type) {
		case core.TaskEnded:
			delete(t.live, core.Token{Run: run, Step: in.Step, Attempt: in.Attempt})
		case core.TaskStopped:
			delete(t.live, core.Token{Run: run, Step: in.Step, Attempt: in.Attempt})
		default:
			continue
		}
		wake(t.idle)
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

// reporter takes what the pool of a term reports. What comes after the term is void.
type reporter struct {
	*body.Host
	term *term
}

// Report implements worker.Reporter.
func (r reporter) Report(run core.RunID, in core.Input) {
	if r.term.holder.current() == r.term {
		r.Host.Report(run, in)
	}
}
