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

// Routed is the service of a node that shares the partitions of its journal with others: what concerns a run of another
// node is asked of that node. Lists and searches are answered here, of the view and of what this node knows beyond it.
type Routed struct {
	*Embedded
	own   Own
	nodes Nodes
	// patience is how long a request waits for a partition that is on its way from one node to another.
	patience time.Duration
	program  Program
	updates  api.Updates
}

// Program is what starts the workflows that a Go program has, and talks to their bodies.
type Program interface {
	api.Updates
	Start(ctx context.Context, r api.StartRequest) (api.Started, error)
	Restart(ctx context.Context, name string, r api.RestartRequest) (api.Started, error)
}

// Own is what this node has. *engine.Engine implements it.
type Own interface {
	// Runs reports whether this node runs a partition.
	Runs(partition int) bool
	// PartitionCount returns how many there are, on all nodes.
	PartitionCount() int
	// Owned returns those that this node runs.
	Owned() []int
	// Changed returns a channel that is closed when these are others than now.
	Changed() <-chan struct{}
}

// Nodes finds the other nodes.
type Nodes interface {
	// Owner returns the service of the node that owns a partition; nil: none that is known does.
	Owner(partition int) api.Node
	// Anyone returns the service of a node that owns a partition; nil: none that is known does.
	Anyone() api.Node
	// Changed returns a channel that is closed when owners may have changed.
	Changed() <-chan struct{}
}

var _ api.Service = (*Routed)(nil)

// NewRouted returns the service of a node.
func NewRouted(e *Embedded, own Own, nodes Nodes, patience time.Duration) *Routed {
	e.shared = true
	return &Routed{Embedded: e, own: own, nodes: nodes, patience: patience}
}

// For makes the service that of a node which is a Go program. Call it before the first request.
func (s *Routed) For(p Program) { s.program, s.updates = p, p }

// TakeUpdates says who sends updates to the bodies of this node's runs. Call it before the first request.
func (s *Routed) TakeUpdates(own api.Updates) { s.updates = own }

// errMoving returns the error of a request whose partition has no owner for long.
func errMoving() error {
	return &api.Error{
		Code: api.CodeHeld, Message: "the partition of this run is on its way from one node to another",
		Hint: "nothing was saved; try again in a moment",
	}
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

// moveLook is how often a request that waits for a partition looks again, if it hears nothing.
const moveLook = 100 * time.Millisecond

// at carries a request out where a partition is. While that moves, it waits and tries again. A request that only reads
// is given up when the partition leaves the node that was asked: that may be cut off from its database, and would
// answer late.
func (s *Routed) at(ctx context.Context, partition int, reads bool, here func(context.Context) error,
	there func(context.Context, api.Node) error,
) error {
	ask := func(holds func() bool, f func(context.Context) error) error {
		if !reads {
			return f(ctx)
		}
		return s.while(ctx, holds, f)
	}
	return s.until(ctx, reads, func() error {
		if s.own.Runs(partition) {
			return ask(func() bool { return s.own.Runs(partition) }, here)
		}
		if owner := s.nodes.Owner(partition); owner != nil {
			return ask(func() bool { return s.nodes.Owner(partition) == owner },
				func(ctx context.Context) error { return there(ctx, owner) })
		}
		return errMoving()
	})
}

// until tries until a partition is where try looks for it, or patience is over.
func (s *Routed) until(ctx context.Context, reads bool, try func() error) error {
	var patience <-chan time.Time
	for {
		changed := s.nodes.Changed()
		err := try()
		if !again(err, reads) || ctx.Err() != nil {
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

// onRun carries a request about a run out where that run is. A name that is no run id is looked up by the node where
// the runs with such a workflow id are: it knows those that the view does not have yet.
func (s *Routed) onRun(ctx context.Context, name string, reads bool, here func(ctx context.Context, name string) error,
	there func(ctx context.Context, owner api.Node, name string) error,
) error {
	if name == "" {
		return api.NoName()
	}
	if name == "@last" {
		id, err := s.find(ctx, name)
		if err != nil {
			return err
		}
		name = id.String()
	}
	home := int(core.KeyOfWorkflowID(name)) % s.own.PartitionCount()
	resolved, away := "", false
	err := s.at(ctx, home, reads, func(ctx context.Context) error {
		id, err := s.find(ctx, name)
		if err != nil {
			return err
		}
		if away = int(core.PartitionKey(id))%s.own.PartitionCount() != home; away {
			resolved = id.String()
			return nil
		}
		return here(ctx, name)
	}, func(ctx context.Context, owner api.Node) error { return there(ctx, owner, name) })
	if err != nil || !away {
		return err
	}
	return s.onRun(ctx, resolved, reads, here, there)
}

// Start implements api.Service.
func (s *Routed) Start(ctx context.Context, r api.StartRequest) (out api.Started, err error) {
	req, here, err := s.startsHere(r)
	if err != nil {
		return out, err
	}
	home, named, err := engine.Home(&req, s.own.PartitionCount())
	if err != nil {
		return out, err
	}
	there := func(ctx context.Context, owner api.Node) (err error) { out, err = owner.Start(ctx, r); return err }
	start := func(ctx context.Context) (err error) { out, err = here(ctx); return err }
	if named {
		err = s.at(ctx, home, false, start, there)
		return out, err
	}
	err = s.until(ctx, false, func() error { // a start without a name goes here, unless this node has no partition
		if len(s.own.Owned()) > 0 {
			return start(ctx)
		}
		owner := s.nodes.Anyone()
		if owner == nil {
			return errMoving()
		}
		return there(ctx, owner)
	})
	return out, err
}

// startsHere returns the request of a start, which says where it belongs, and what carries it out in this node. What a
// workflow in Go adds to the request does not change where it belongs.
func (s *Routed) startsHere(r api.StartRequest) (
	req engine.StartRequest, here func(context.Context) (api.Started, error), err error,
) {
	if p := s.program; p != nil {
		req.Definition.Name, req.WorkflowID, req.Key = r.Definition.Name, r.WorkflowID, r.Key
		return req, func(ctx context.Context) (api.Started, error) { return p.Start(ctx, r) }, nil
	}
	req, err = s.startRequest(r)
	return req, func(ctx context.Context) (api.Started, error) { return s.start(ctx, req) }, err
}

// Update implements api.Updates. An update waits in memory alone, and with the same id
// it may be sent again. So when the run's partition leaves the node that was asked, the next owner is.
func (s *Routed) Update(ctx context.Context, name string, u api.Update) (out api.Answer, err error) {
	if u.ID == "" {
		u.ID = rand.Text()
	}
	err = s.onRun(ctx, name, true,
		func(ctx context.Context, name string) (err error) {
			out, err = s.updates.Update(ctx, name, u)
			return err
		},
		func(ctx context.Context, owner api.Node, name string) (err error) {
			out, err = owner.Update(ctx, name, u)
			return err
		})
	return out, err
}

// while calls f with a context that ends when a condition does not hold any more, which is about who owns what. Then it
// is not known what f has done.
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

// Send implements api.Service.
func (s *Routed) Send(ctx context.Context, name string, signal api.SendRequest) error {
	return s.onRun(ctx, name, false,
		func(ctx context.Context, name string) error { return s.Embedded.Send(ctx, name, signal) },
		func(ctx context.Context, owner api.Node, name string) error { return owner.Send(ctx, name, signal) })
}

// Operate implements api.Service.
func (s *Routed) Operate(ctx context.Context, name string, op api.Operation) error {
	return s.onRun(ctx, name, false,
		func(ctx context.Context, name string) error { return s.Embedded.Operate(ctx, name, op) },
		func(ctx context.Context, owner api.Node, name string) error { return owner.Operate(ctx, name, op) })
}

// Restart implements api.Service. The new run has the workflow id of the old one, or none.
func (s *Routed) Restart(ctx context.Context, name string, r api.RestartRequest) (out api.Started, err error) {
	restart := s.Embedded.Restart
	if s.program != nil {
		restart = s.program.Restart
	}
	err = s.onRun(ctx, name, false,
		func(ctx context.Context, name string) (err error) { out, err = restart(ctx, name, r); return err },
		func(ctx context.Context, owner api.Node, name string) (err error) {
			out, err = owner.Restart(ctx, name, r)
			return err
		})
	return out, err
}

// Run implements api.Service.
func (s *Routed) Run(ctx context.Context, name string) (out *api.Run, err error) {
	err = s.onRun(ctx, name, true,
		func(ctx context.Context, name string) (err error) { out, err = s.Embedded.Run(ctx, name); return err },
		func(ctx context.Context, owner api.Node, name string) (err error) {
			out, err = owner.Run(ctx, name)
			return err
		})
	return out, err
}

// Wait implements api.Service.
func (s *Routed) Wait(ctx context.Context, name string) (out api.Outcome, err error) {
	err = s.onRun(ctx, name, true,
		func(ctx context.Context, name string) (err error) { out, err = s.Embedded.Wait(ctx, name); return err },
		func(ctx context.Context, owner api.Node, name string) (err error) {
			out, err = owner.Wait(ctx, name)
			return err
		})
	return out, err
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
	told := func(err error) error {
		if refused != nil {
			err = nil // asking again would not help
		}
		return err
	}
	err := s.onRun(ctx, name, true,
		func(ctx context.Context, name string) error { return told(s.Embedded.Watch(ctx, name, after, follow)) },
		func(ctx context.Context, owner api.Node, name string) error {
			return told(owner.Watch(ctx, name, after, follow))
		})
	if refused != nil {
		return refused
	}
	return err
}

// History implements api.Service.
func (s *Routed) History(ctx context.Context, name string) (out []byte, err error) {
	err = s.onRun(ctx, name, true,
		func(ctx context.Context, name string) (err error) {
			out, err = s.Embedded.History(ctx, name)
			return err
		},
		func(ctx context.Context, owner api.Node, name string) (err error) {
			out, err = owner.History(ctx, name)
			return err
		})
	return out, err
}

// Forecast implements api.Service.
func (s *Routed) Forecast(ctx context.Context, name string, q api.ForecastRequest) (out *api.Run, err error) {
	err = s.onRun(ctx, name, true,
		func(ctx context.Context, name string) (err error) {
			out, err = s.Embedded.Forecast(ctx, name, q)
			return err
		},
		func(ctx context.Context, owner api.Node, name string) (err error) {
			out, err = owner.Forecast(ctx, name, q)
			return err
		})
	return out, err
}
