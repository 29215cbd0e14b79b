package facetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// play is an engine on whose disk a commit takes a second, and what happens there at which instant. So a test can put
// something between an end and the commit with which it is heard of. The instants count from open; the first start
// takes a second.
type play struct {
	t      *testing.T
	engine *pawl.Engine
	opened time.Time
	ends   sync.Map // how the first attempts of steps end, by the step's name
	acts   []act
}

type ending struct {
	at  time.Duration
	err error
}

type act struct {
	at time.Duration
	do func(run string) error
}

// moment is an instant of a play.
type moment struct {
	*play
	after time.Duration
}

// at chooses an instant, which is a length of time after open.
func (p *play) at(after string) moment {
	d, err := time.ParseDuration(after)
	if err != nil {
		panic(err)
	}
	return moment{p, d}
}

// ends makes the first attempt of a step succeed then, however late it began.
func (m moment) ends(step string) { m.play.ends.Store(step, ending{m.after, nil}) }

// fails makes the first attempt of a step fail then.
func (m moment) fails(step string) { m.play.ends.Store(step, ending{m.after, errors.New("no money")}) }

// sends sends the run an event.
func (m moment) sends(payload string) {
	m.acts = append(m.acts, act{m.after, func(run string) error {
		return pawl.Event[string]("note").Send(m.t.Context(), m.engine, run, payload)
	}})
}

// operates applies an operation to the run.
func (m moment) operates(op pawl.Operation) {
	m.acts = append(m.acts, act{m.after, func(run string) error { return m.engine.Operate(m.t.Context(), run, op) }})
}

// step does the work of any step: it returns at once, unless the first attempt is to end at an instant.
func (p *play) step(ctx context.Context) error {
	planned, ok := p.ends.LoadAndDelete(pawl.Attempt(ctx).Step)
	if !ok {
		return nil
	}
	end := planned.(ending)
	if err := wait(ctx, time.Until(p.opened.Add(end.at))); err != nil {
		return err
	}
	return end.err
}

// open opens the engine.
func (p *play) open(t *testing.T, workflows ...pawl.Definition) *pawl.Engine {
	p.t, p.engine, p.opened = t, open(t, slow{memory.New(), time.Second}, workflows...), time.Now()
	return p.engine
}

// goes lets happen to a run what was put down, and waits for all of it.
func (p *play) goes(run string) {
	p.t.Helper()
	var all sync.WaitGroup
	for _, a := range p.acts {
		all.Go(func() {
			<-time.After(time.Until(p.opened.Add(a.at)))
			if err := a.do(run); err != nil {
				p.t.Errorf("after %s: %v", a.at, err)
			}
		})
	}
	all.Wait()
}

// wantOutput checks that a run ends well within two hours.
func (p *play) wantOutput(r pawl.Run[string], want string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Hour)
	defer cancel()
	if got, err := r.Result(ctx); err != nil || got != want {
		p.t.Errorf("%q, %v, want %q; problem: %v", got, err, want, p.engine.Problem(r.ID))
	}
}
