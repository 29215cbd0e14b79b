// Package node assembles a process that carries runs on: a journal, the kinds of workflows, workers, and the engine
// between them. A Go program, the command and a server all use it, so that all of them start and stop these parts in
// the same order:
//
//	n, err := node.New(cfg)     // nothing runs yet; n.Engine can be given to what needs it
//	err = n.Serve(pool)         // workers, before or after Open
//	err = n.Open(ctx)           // leftovers of a killed process end, runs are recovered, work starts
//	err = n.Close()             // workers, then the engine, then the journal
package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/kind/schedule"
	"github.com/pawl-dev/pawl/internal/virtual"
	"github.com/pawl-dev/pawl/internal/worker"
)

// Config specifies what a node is made of.
type Config struct {
	// Engine configures the engine. It needs a Journal. The plugins replace those kinds of Kinds that they know.
	Engine engine.Config
	// CloseJournal makes the node close the journal when it closes, and when New fails.
	CloseJournal bool
	// Plugins are kinds of workflows that bring what executes their steps.
	Plugins []kind.Plugin
	// Registered finds the workflows that the process knows by name; nil if it knows none.
	Registered func(name string) (journal.Definition, error)
	// Processes configures the executors of the plugins. Its Owner marks the processes of steps. When a node was
	// killed, the next one finds its processes by this mark and ends them, before it makes another attempt. Empty: such
	// processes are not looked for.
	Processes worker.ExecConfig
	// CloseWithin is how long attempts may take to stop when the node closes. Default 30s.
	CloseWithin time.Duration
}

// Node is a process that carries runs on. Its methods are safe for concurrent use.
type Node struct {
	Engine *engine.Engine
	cfg    Config
	kinds  map[string]engine.Kind

	mu     sync.Mutex
	pools  []*worker.Pool
	spare  []*worker.Pool // those that serve every queue
	closed bool           // it takes no more workers
	once   sync.Once
	err    error // the error of Close
}

// New returns a node that does nothing yet. Call Close even if Open was not called or has failed.
func New(cfg Config) (*Node, error) {
	if cfg.CloseWithin <= 0 {
		cfg.CloseWithin = 30 * time.Second
	}
	n := &Node{cfg: cfg}
	own := cfg.Engine
	own.Kinds = map[string]engine.Kind{schedule.Name: schedule.Kind()}
	maps.Copy(own.Kinds, cfg.Engine.Kinds)
	for _, p := range cfg.Plugins {
		maps.Copy(own.Kinds, p.Kinds(own.Journal, cfg.Registered))
	}
	n.kinds, own.BeforeRecovery = own.Kinds, n.endLeftovers
	var err error
	if n.Engine, err = engine.New(own); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	for _, p := range cfg.Plugins {
		if err := p.Open(n.Engine); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	return n, nil
}

// DrainPlugins answers the waiting callers of plugins, such as those that wait for news of runs.
func (n *Node) DrainPlugins() {
	for _, p := range n.cfg.Plugins {
		p.Drain()
	}
}

func (n *Node) endLeftovers(context.Context) error {
	if n.cfg.Processes.Owner == "" {
		return nil
	}
	var errs []error
	for _, p := range n.cfg.Plugins {
		errs = append(errs, p.EndLeftovers(n.cfg.Processes))
	}
	return errors.Join(errs...)
}

// Compile makes a definition from a stored source, to explain runs with it. It returns an error if this node cannot
// carry on that kind of workflow.
func (n *Node) Compile(d journal.Definition) (*core.Definition, error) {
	k := n.kinds[d.Kind]
	switch {
	case k.Refuse != nil:
		return nil, k.Refuse(d)
	case k.Compile == nil:
		return nil, fmt.Errorf("workflow %q is of kind %q, which this process does not know", d.Name, d.Kind)
	default:
		return k.Compile(d)
	}
}

// Executors returns the executors, by task type, of the steps of the plugins' workflows.
func (n *Node) Executors() map[string]worker.Executor {
	out := map[string]worker.Executor{}
	for _, p := range n.cfg.Plugins {
		maps.Copy(out, p.Executors(n.cfg.Processes))
	}
	return out
}

// TakenError is the error of workers for tasks that other workers of the node already execute.
type TakenError struct{ Queue, Type string }

func (e *TakenError) Error() string {
	return fmt.Sprintf("tasks of the type %q on the queue %q are executed here already", e.Type, e.Queue)
}

// Serve adds workers. They report to the engine if cfg names no other receiver, and stop when the node closes.
// Errors: a *TakenError, engine.ErrClosed.
func (n *Node) Serve(cfg worker.PoolConfig) error {
	if cfg.Reporter == nil {
		cfg.Reporter = n.Engine
	}
	n.equip(&cfg)
	if len(cfg.Queues) == 0 {
		cfg.Queues = []string{""}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return engine.ErrClosed
	}
	for _, queue := range cfg.Queues {
		for _, name := range slices.Sorted(maps.Keys(cfg.Executors)) {
			if n.executes(queue, name) {
				return &TakenError{queue, name}
			}
		}
	}
	p := worker.NewPool(cfg)
	n.pools = append(n.pools, p)
	n.Engine.Serve("", p)
	return nil
}

// ServeAnyQueue adds workers that serve every task queue, beside those that Serve adds: Executes does not count them.
// Errors: engine.ErrClosed.
func (n *Node) ServeAnyQueue(cfg worker.PoolConfig) error {
	cfg.AnyQueue = true
	n.equip(&cfg)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return engine.ErrClosed
	}
	p := worker.NewPool(cfg)
	n.spare = append(n.spare, p)
	n.Engine.Serve("", p)
	return nil
}

// equip gives workers the log and the clock of the engine. By another clock a task's deadline may have passed when it
// comes, again and again.
func (n *Node) equip(cfg *worker.PoolConfig) {
	if cfg.Log == nil {
		cfg.Log = n.cfg.Engine.Log
	}
	if cfg.Now == nil {
		cfg.Now = n.cfg.Engine.Now
	}
}

// executes reports whether the node has workers for tasks of the queue and type. It is called with mu held.
func (n *Node) executes(queue, taskType string) bool {
	for _, p := range n.pools {
		if p.Slots(queue, taskType) != 0 {
			return true
		}
	}
	return false
}

// Executes reports whether the node has workers for tasks of the queue and type.
func (n *Node) Executes(queue, taskType string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.executes(queue, taskType)
}

// Open ends what a killed node left running, recovers the runs and starts to work. ctx applies to the opening only;
// the node works until Close. Call Close after an error, too.
func (n *Node) Open(ctx context.Context) error {
	if n.cfg.Engine.Now == nil { // the clock runs
		if err := virtual.Refuse(ctx, n.cfg.Engine.Journal); err != nil {
			return err
		}
	}
	return n.Engine.Open(ctx)
}

// drainLook is how often Drain looks whether attempts still run.
const drainLook = 5 * time.Millisecond

// Drain starts no more attempts, and waits until the running ones have ended or ctx is done. Runs go on until they need
// an attempt. Call Close afterwards.
func (n *Node) Drain(ctx context.Context) error {
	n.mu.Lock()
	n.closed = true
	pools := slices.Concat(n.pools, n.spare)
	n.mu.Unlock()
	for _, p := range pools {
		p.Drain()
	}
	tick := time.NewTicker(drainLook)
	defer tick.Stop()
	for {
		live, err := n.Engine.Live(ctx)
		if live == 0 || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d attempts had not ended: %w", live, context.Cause(ctx))
		}
	}
}

// Close stops the workers, then the engine, and then closes the journal if the node owns it. Attempts that it
// interrupts are made again by the next process that carries the runs on. Close returns all errors; a second Close
// returns them again.
func (n *Node) Close() error {
	n.once.Do(func() {
		n.mu.Lock()
		n.closed = true
		pools := slices.Concat(n.pools, n.spare)
		n.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), n.cfg.CloseWithin)
		defer cancel()
		var errs []error
		for _, p := range pools {
			errs = append(errs, p.Close(ctx))
		}
		n.DrainPlugins()
		if n.Engine != nil {
			errs = append(errs, n.Engine.Close())
		}
		for _, p := range n.cfg.Plugins {
			p.Close()
		}
		if j := n.cfg.Engine.Journal; j != nil && n.cfg.CloseJournal {
			errs = append(errs, j.Close())
		}
		n.err = errors.Join(errs...)
	})
	return n.err
}
