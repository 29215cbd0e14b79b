package lease

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// asked is a caller's update on its way to a body in another process. The keeper's lock guards its fields.
type asked struct {
	keeper  *Keeper
	run     core.RunID
	update  body.Update
	again   chan struct{}
	offered bool
	refused *policy.Failure
}

var _ body.Pending = (*asked)(nil)

// ask makes an update known, for a caller that will look whether it was answered before.
func (k *Keeper) ask(run core.RunID, u body.Update) body.Pending {
	a := &asked{keeper: k, run: run, update: u, again: make(chan struct{}, 1)}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.drained {
		close(a.again)
	} else {
		k.asked[run] = append(k.asked[run], a)
	}
	return a
}

func (a *asked) Leave() {
	k := a.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked[a.run] = slices.DeleteFunc(k.asked[a.run], func(other *asked) bool { return other == a })
	if len(k.asked[a.run]) == 0 {
		delete(k.asked, a.run)
	}
}

// Offer implements body.Pending. A body that is not called gets the update when it is.
func (a *asked) Offer() {
	k := a.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	a.offered = true
	if l := k.leases[a.run]; l != nil {
		l.offer(a)
		return
	}
	k.engine.Consult(a.run)
}

func (a *asked) Again() <-chan struct{} { return a.again }

func (a *asked) Refused() *policy.Failure {
	a.keeper.mu.Lock()
	defer a.keeper.mu.Unlock()
	return a.refused
}

// offer sends the update to the body.
func (l *lease) offer(a *asked) {
	if a.offered && a.refused == nil {
		l.sent++
		l.holder.tell(down{Kind: downOffer, Run: a.run, Lease: l.number, Update: &a.update})
	}
}

// refuse notes that a body does not accept an update.
func (k *Keeper) refuse(u *up) {
	for _, a := range k.asked[u.Run] {
		if u.Update != nil && a.update.Name == u.Update.Name && a.update.ID == u.Update.ID {
			a.refused = u.Failure
		}
	}
	k.lookAgain(u.Run)
}

// lookAgain makes the callers of a run's updates look at the run again.
func (k *Keeper) lookAgain(run core.RunID) {
	for _, a := range k.asked[run] {
		if k.drained {
			continue // it was sent already
		}
		wake(a.again)
	}
}

// Updates sends updates to the bodies that processes serve.
type Updates struct {
	Keeper *Keeper
	Find   func(ctx context.Context, name string) (core.RunID, error)
	State  func(ctx context.Context, run core.RunID, name, id string) (engine.UpdateState, error)
}

var _ api.Updates = Updates{}

func (s Updates) Update(ctx context.Context, name string, u api.Update) (api.Answer, error) {
	if u.Name == "" {
		return api.Answer{}, &api.Error{Code: api.CodeInvalid, Op: "update", Message: "the update has no name"}
	}
	run, err := s.Find(ctx, name)
	if err != nil {
		return api.Answer{}, err
	}
	reply, err := body.Asking{State: s.State, Ask: s.Keeper.ask, HasBody: s.Keeper.hasProgram}.Update(ctx, run,
		body.Update{Name: u.Name, ID: u.ID, Payload: u.Payload})
	if err == nil && reply.Open {
		err = s.open(ctx, &reply, u)
	}
	return api.Answer{
		Run: reply.Run.String(), Output: reply.Output, Failure: reply.Failure, Refused: reply.Refused,
	}, err
}

// open returns the error of a caller that waits no more.
func (s Updates) open(ctx context.Context, reply *body.Reply, u api.Update) error {
	what := fmt.Sprintf("the body has not accepted it, and waits perhaps for something else than update %q", u.Name)
	if reply.Accepted {
		what = fmt.Sprintf("it is accepted and not answered yet: ask again with the id %q", u.ID)
	}
	err := fmt.Errorf("update %q of run %s: %w; %s", u.Name, reply.Run, context.Cause(ctx), what)
	if problem := s.Keeper.Problems()[reply.Run]; problem != nil {
		err = fmt.Errorf("%w; the run cannot go on: %w", err, problem)
	}
	return err
}

// hasProgram reports whether a process serves or has served the run's workflow.
func (k *Keeper) hasProgram(workflow string, definition core.DefinitionID) bool {
	d, err := k.Find(workflow)
	return err == nil && d.ID == definition
}

// asks brings an update to the body of a lease, in the process that has it.
func (t *term) asks(d *down) {
	l := t.lease(d.Run)
	if l == nil || l.number != d.Lease {
		return
	}
	a := t.holder.cfg.Host.Ask(d.Run, *d.Update)
	a.Offer()
	l.seen.Add(1)
	t.offers.Go(func() {
		defer a.Leave()
		for {
			select {
			case _, open := <-a.Again():
				if f := a.Refused(); f != nil {
					t.put(outgoing{up: up{Kind: upRefuse, Run: d.Run, Lease: d.Lease, Update: d.Update, Failure: f}})
					return
				}
				if !open {
					return
				}
			case <-l.over:
				return
			case <-t.ctx.Done():
				return
			}
		}
	})
}
