package service

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// Routed is the service of a node that shares the partitions of its journal with others: requests about a run of
// another node go to that node. Lists and searches are answered here, from the view and the newer data of this node.
type Routed struct {
	*Embedded
	here  api.Node // answers for the runs of this node
	own   Own
	nodes Nodes
	// patience is how long a request waits for a partition that is on its way from one node to another.
	patience time.Duration
}

// Local is a node's own part: its service, and the way of updates to the bodies of its runs.
type Local struct {
	*Embedded
	api.Updates
}

// Own is this node's engine. *engine.Engine implements it.
type Own interface {
	// Runs reports whether this node runs a partition.
	Runs(partition int) bool
	// PartitionCount returns how many there are, on all nodes.
	PartitionCount() int
	// Owned returns those that this node runs.
	Owned() []int
	// Changed returns a channel that is closed when these are others than now.
	Changed() <-chan struct{}
	// Lookup asks the partition of a workflow id or run id, which knows what the view does not have yet. Errors:
	// CodeNotFound, CodeHeld (this node does not run it).
	Lookup(ctx context.Context, name string) (core.RunID, error)
}

// Nodes finds the other nodes.
type Nodes interface {
	// Owner returns the service of the node that owns a partition; nil: none that is known does.
	Owner(partition int) api.Node
	// Anyone returns the service of a node that owns a partition; nil: none that is known does.
	Anyone() api.Node
	// Changed returns a channel that is closed when owners may have changed.
	Changed() <-chan struct{}
	// Asks reports whether a request comes from another node.
	Asks(ctx context.Context) bool
	// Failing returns why this node cannot take or keep partitions at present; nil: it can.
	Failing() error
}

var _ api.Node = (*Routed)(nil)

// NewRouted returns the service of a node.
func NewRouted(e *Embedded, own Own, nodes Nodes, patience time.Duration) *Routed {
	e.shared = true
	return &Routed{Embedded: e, here: Local{Embedded: e}, own: own, nodes: nodes, patience: patience}
}

// For sets who answers for the runs of this node, in place of its service. Call it before the first request.
func (s *Routed) For(n api.Node) { s.here = n }

// errMoving returns the error of a request whose partition has no owner for long.
func errMoving() *api.Error {
	return &api.Error{
		Code: api.CodeHeld, Message: "the partition of this run is on its way from one node to another",
		Hint: "nothing was saved; try again in a moment",
	}
}

// moving returns the error of a request whose partition has no owner for long, with why this node cannot be that.
func (s *Routed) moving() *api.Error {
	e := errMoving()
	if why := s.nodes.Failing(); why != nil {
		e.Message += ", and this one cannot take it at present: " + why.Error()
	}
	return e
}

// away returns the error of a request to another node. A caller is not told that something was closed if that node
// stops or cannot be reached: what it had is on its way to the next owner.
func away(err error) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.CodeClosed {
		return err
	}
	moving := errMoving()
	moving.Message += ": " + e.Reason()
	return moving
}

// again reports whether a request was not carried out because its partition is elsewhere by now. Of a request that only
// reads, it does not matter whether it was.
func again(err error, reads bool) bool {
	switch api.CodeOf(err) {
	case api.CodeHeld, api.CodeClosed:
		return true
	case api.CodeFenced, api.CodeUncertain:
		return reads
	default:
		return false
	}
}

// moveLook is how often a request that waits for a partition looks again, if it gets no notice.
const moveLook = 100 * time.Millisecond

// at carries a request out by the node that has a partition; here is set if that is this one. While the partition
// moves, it waits and tries again. A request that only reads is given up when the partition leaves the node that was
// asked: that node may be cut off from its database, and would answer late.
func (s *Routed) at(ctx context.Context, partition int, reads bool,
	call func(ctx context.Context, node api.Node, here bool) error,
) error {
	ask := func(holds func() bool, node api.Node, here bool) error {
		if !reads {
			return call(ctx, node, here)
		}
		return s.while(ctx, holds, func(ctx context.Context) error { return call(ctx, node, here) })
	}
	return s.until(ctx, reads, func() error {
		if s.own.Runs(partition) {
			return ask(func() bool { return s.own.Runs(partition) }, s.here, true)
		}
		if owner := s.nodes.Owner(partition); owner != nil {
			return away(ask(func() bool { return s.nodes.Owner(partition) == owner }, owner, false))
		}
		return s.moving()
	})
}

// until tries until a partition is where try looks for it, or patience is over. A node that asks waits itself: it gets
// its answer at once, so that a node which stops has answered.
func (s *Routed) until(ctx context.Context, reads bool, try func() error) error {
	var patience <-chan time.Time
	for {
		changed := s.nodes.Changed()
		err := try()
		if !again(err, reads) || ctx.Err() != nil || s.nodes.Asks(ctx) {
			return err
		}
		if patience == nil {
			limit := time.NewTimer(s.patience)
			defer limit.Stop()
			patience = limit.C
		}
		look := time.NewTimer(moveLook)
		select {
		case <-look.C:
		case <-changed:
		case <-ctx.Done():
		case <-patience:
			look.Stop()
			return err
		}
		look.Stop()
	}
}

// onRun carries a request about a run out where that run is. A name that is not a run id is looked up by the node where
// the runs with such a workflow id are: it knows those that the view does not have yet.
func onRun[T any](ctx context.Context, s *Routed, name string, reads bool,
	call func(ctx context.Context, node api.Node, name string) (T, error),
) (out T, err error) {
	if name == "" {
		return out, api.NoName()
	}
	if name == "@last" {
		id, err := s.find(ctx, name)
		if err != nil {
			return out, err
		}
		name = id.String()
	}
	home := int(core.KeyOfWorkflowID(name)) % s.own.PartitionCount()
	resolved, away := "", false
	err = s.at(ctx, home, reads, func(ctx context.Context, node api.Node, here bool) (err error) {
		if here {
			changed := s.own.Changed()
			defer func() {
				if api.CodeOf(err) == api.CodeNotFound && (over(changed) || !s.own.Runs(home)) {
					err = s.moving() // the partition that knows more than the view has left meanwhile, or leaves
				}
			}()
			id, err := s.own.Lookup(ctx, name)
			if api.CodeOf(err) == api.CodeNotFound {
				id, err = s.find(ctx, name) // the beginning of a run id, or a run that has ended
			}
			if err != nil {
				return err
			}
			name = id.String() // so that it is not looked up again, where less may be known by then
			if away = int(core.PartitionKey(id))%s.own.PartitionCount() != home; away {
				resolved = name
				return nil
			}
		}
		out, err = call(ctx, node, name)
		return err
	})
	if err != nil || !away {
		return out, err
	}
	return onRun(ctx, s, resolved, reads, call)
}

// over reports whether a channel is closed.
func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (s *Routed) Start(ctx context.Context, r api.StartRequest) (out api.Started, err error) {
	home, named := s.home(r)
	start := func(ctx context.Context, node api.Node, _ bool) (err error) {
		out, err = node.Start(ctx, r)
		return err
	}
	if named {
		err = s.at(ctx, home, false, start)
		return out, err
	}
	err = s.until(ctx, false, func() error { // a start without a name goes here, unless this node has no partition
		if len(s.own.Owned()) > 0 {
			return start(ctx, s.here, true)
		}
		owner := s.nodes.Anyone()
		if owner == nil {
			return s.moving()
		}
		return away(start(ctx, owner, false))
	})
	return out, err
}

// home returns the partition of the run that a start makes or finds; named is false if any one may have it.
func (s *Routed) home(r api.StartRequest) (home int, named bool) {
	req := engine.StartRequest{Start: core.Start{WorkflowID: r.WorkflowID, Key: r.Key}}
	req.Definition.Name = r.Definition.Name
	home, named, _ = engine.Home(&req, s.own.PartitionCount()) // it has no run id, which alone could contradict
	return home, named
}

// Update implements api.Updates. An update waits in memory alone, and with the same id
// it may be sent again. So when the run's partition leaves the node that was asked, the next owner is.
func (s *Routed) Update(ctx context.Context, name string, u api.Update) (api.Answer, error) {
	if u.ID == "" {
		u.ID = rand.Text()
	}
	return onRun(ctx, s, name, true, func(ctx context.Context, node api.Node, name string) (api.Answer, error) {
		return node.Update(ctx, name, u)
	})
}

// while calls f with a context that ends when a condition about who owns what no longer holds. Then it is not known
// what f has done.
func (s *Routed) while(ctx context.Context, holds func() bool, f func(ctx context.Context) error) error {
	moved := &api.Error{
		Code: api.CodeUncertain, Message: "the partition of this run has moved meanwhile",
		Hint: "ask again; send an update again with the same id",
	}
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			own, others := s.own.Changed(), s.nodes.Changed()
			if !holds() {
				cancel(moved)
				return
			}
			select {
			case <-own:
			case <-others:
			case <-ctx.Done():
				return
			}
		}
	}()
	err := f(ctx)
	cancel(nil)
	<-over
	if err != nil && errors.Is(context.Cause(ctx), error(moved)) {
		return moved
	}
	return err
}

// nothing is the result of a request that has none.
type nothing = struct{}

func (s *Routed) Send(ctx context.Context, name string, signal api.SendRequest) error {
	_, err := onRun(ctx, s, name, false, func(ctx context.Context, node api.Node, name string) (nothing, error) {
		return nothing{}, node.Send(ctx, name, signal)
	})
	return err
}

func (s *Routed) Operate(ctx context.Context, name string, op api.Operation) error {
	_, err := onRun(ctx, s, name, false, func(ctx context.Context, node api.Node, name string) (nothing, error) {
		return nothing{}, node.Operate(ctx, name, op)
	})
	return err
}

// Restart implements api.Service. The new run has the workflow id of the old one, or none.
func (s *Routed) Restart(ctx context.Context, name string, r api.RestartRequest) (api.Started, error) {
	return onRun(ctx, s, name, false, func(ctx context.Context, node api.Node, name string) (api.Started, error) {
		return node.Restart(ctx, name, r)
	})
}

func (s *Routed) Run(ctx context.Context, name string) (*api.Run, error) {
	return newestRun(ctx, name, s.run)
}

// run reads the run that a name means now.
func (s *Routed) run(ctx context.Context, name string) (*api.Run, error) {
	return onRun(ctx, s, name, true, func(ctx context.Context, node api.Node, name string) (*api.Run, error) {
		return node.Run(ctx, name)
	})
}

func (s *Routed) Wait(ctx context.Context, name string) (api.Outcome, error) {
	return onRun(ctx, s, name, true, func(ctx context.Context, node api.Node, name string) (api.Outcome, error) {
		return node.Wait(ctx, name)
	})
}

// Watch implements api.Service. It goes on where it was when the run has moved.
func (s *Routed) Watch(ctx context.Context, name string, after int, fn func(api.Event) error) error {
	var refused error // the error that fn returned
	follow := func(e api.Event) error {
		if refused = fn(e); refused == nil {
			after = e.Seq
		}
		return refused
	}
	_, err := onRun(ctx, s, name, true, func(ctx context.Context, node api.Node, name string) (nothing, error) {
		err := node.Watch(ctx, name, after, follow)
		if refused != nil {
			err = nil // asking again would not help
		}
		return nothing{}, err
	})
	if refused != nil {
		return refused
	}
	return err
}

func (s *Routed) History(ctx context.Context, name string) ([]byte, error) {
	return onRun(ctx, s, name, true, func(ctx context.Context, node api.Node, name string) ([]byte, error) {
		return node.History(ctx, name)
	})
}

func (s *Routed) RunAt(ctx context.Context, name string, event int) (*api.Run, error) {
	return onRun(ctx, s, name, true, func(ctx context.Context, node api.Node, name string) (*api.Run, error) {
		return node.RunAt(ctx, name, event)
	})
}

func (s *Routed) Forecast(ctx context.Context, name string, q api.ForecastRequest) (*api.Run, error) {
	return onRun(ctx, s, name, true, func(ctx context.Context, node api.Node, name string) (*api.Run, error) {
		return node.Forecast(ctx, name, q)
	})
}
