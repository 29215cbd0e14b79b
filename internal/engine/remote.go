package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// RemoteWorkers are workers in other processes. A worker asks for tasks, and takes as many at once as it has room for,
// of any of the types that it names. So its slots belong to no single type: the matcher reserves a seat before an
// attempt starts, and the task goes to that seat.
//
// Other than workers of this process they outlive the engine. An attempt of theirs goes on when the engine is started
// again.
type RemoteWorkers interface {
	// Slots counts the seats that are free now. Else it is as for other workers.
	anyWorkers
	// Reserve takes a free seat for one attempt. The matcher calls it only where Slots has just counted one.
	Reserve(queue, taskType string) Seat
	// Return gives a seat back whose attempt did not start.
	Return(s Seat)
	// Keep makes an attempt known that the engine has found in its journal when it was opened. It may be known already.
	Keep(t core.Task)
}

// Seat is room for one attempt at a remote worker.
type Seat struct {
	Worker string // the name that is recorded with the attempt
	Secret uint64 // the worker shows it with its reports; not 0
	// Confirms: see core.TaskStarted.
	Confirms bool
}

// remote returns the remote workers; nil: there are none.
func (m *Matcher) remote() *namedWorkers {
	all := *m.workers.Load()
	if i := slices.IndexFunc(all, func(w *namedWorkers) bool { return w.remote != nil }); i >= 0 {
		return all[i]
	}
	return nil
}

// Offered wakes the partitions that wait for slots of a queue, because a remote worker has come with free ones. takes
// says which task types it takes.
func (m *Matcher) Offered(queue string, takes func(taskType string) bool) {
	type waiting struct {
		key     queueKey
		clients []*matcherClient
	}
	var wake []waiting
	m.mu.Lock()
	for key, q := range m.queues {
		if key.queue == queue && len(q.waiting) > 0 && takes(key.taskType) {
			wake = append(wake, waiting{key, m.whoCanTake(q, key, nil)})
		}
	}
	suspect := m.whichSuspect(nil)
	m.mu.Unlock()
	suspect.wake()
	for _, w := range wake {
		for _, c := range w.clients {
			c.wake(w.key.queue, w.key.taskType)
		}
	}
}

// Offered tells the engine that a remote worker has come with free slots; see Matcher.Offered.
func (e *Engine) Offered(queue string, takes func(taskType string) bool) {
	e.cfg.Matcher.Offered(queue, takes)
}

// keepRemote takes over the attempts of a run that remote workers execute since before the engine was opened, once for
// each time that the run is read. Those that have ended, and whose work was told to stop, are told again: the engine
// that did so may have died before. It reports whether remote workers can be reached.
//
// The attempts of a run that rests are taken over too: a caller may end them, and then their workers have to hear of it
// before the next ones start.
func (p *Partition) keepRemote(r *run) (reachable bool) {
	w := p.tasks.matcher.remote()
	if w == nil || r.keptRemote {
		return w != nil
	}
	r.keptRemote = true
	for _, t := range r.state.RemoteTasks() {
		_, known := p.tasks.held[t.Token]
		if !known && p.tasks.alive[t.Token] {
			continue // its end was reported before the storage failed, and is reported again after that
		}
		if !known {
			key := queueKey{t.Queue, t.Type, t.Group}
			kept := slot{of: w, key: key, used: true}
			p.tasks.held[t.Token] = hold{slot: kept, dispatched: true, ticket: p.takenBefore(r, t)}
			p.tasks.matcher.keep(key)
		}
		w.remote.Keep(t)
		if s := &r.state.Steps[t.Token.Step]; s.Stopping {
			why := policy.KindCancelled // an operator has skipped or completed the step
			if s.Failure != nil {
				why = s.Failure.Kind
			}
			w.remote.Revoke(t.Token, why)
		}
	}
	return true
}

// takenBefore counts an attempt in the limits of its queue and service that started before the engine was opened. It
// returns nil if nothing bounds it.
func (p *Partition) takenBefore(r *run, t core.Task) *ticket {
	bounds := p.bounds(r, t.Token.Step)
	if bounds == nil {
		return nil
	}
	of := &ticket{token: t.Token, client: p.tasks.client, queue: queueKey{queue: t.Queue, taskType: t.Type}}
	p.tasks.tickets++
	s := &r.state.Steps[t.Token.Step]
	p.tasks.matcher.limiter.ticket(of, s.ShareKey(), bounds, core.Held{}, 0, p.now)
	p.tasks.matcher.limiter.takePlace(of)
	return of
}

// Deliver reports as Report does. It calls done with nil when the report is durable, else with why it was refused. done
// must not block.
func (e *Engine) Deliver(run core.RunID, in core.Input, done func(error)) {
	e.Do(run, nil, []core.Input{e.bounded(in)}, done)
}

// AttemptState is what a worker in another process is told about its attempt.
type AttemptState struct {
	Task   core.Task // the task without the payload; an operator may have changed its limits
	Now    core.Time // when that was so
	Paused bool      // the run is paused: this attempt goes on, and nothing new starts
}

// Attempt returns how the attempt of a step is doing. Errors: CodeNotFound, CodeStale (it has ended).
func (e *Engine) Attempt(ctx context.Context, tok core.Token) (AttemptState, error) {
	e = e.of(tok.Run)
	c := e.call(CallAttempt)
	c.Run, c.Step, c.Attempt = tok.Run, tok.Step, tok.Attempt
	if err := e.do(ctx, c); err != nil {
		return AttemptState{}, err
	}
	state, err := c.State, c.Err
	e.free(c)
	return state, err
}

// attemptState answers how an attempt is doing.
func (p *Partition) attemptState(c *Call) {
	r, err := p.get(c.Run)
	if err != nil {
		c.Err = failure("report", c.Run.String(), err)
		p.reply(c)
		return
	}
	for _, t := range r.state.RemoteTasks() {
		if t.Token.Step == c.Step && t.Token.Attempt == c.Attempt {
			c.State = AttemptState{Task: t, Now: p.now, Paused: r.state.PausedAt != 0}
			if r.state.Steps[c.Step].Stopping {
				break
			}
			p.reply(c)
			return
		}
	}
	c.Err = &Error{
		Code: CodeStale, Op: "report", ID: c.Run.String(),
		Err: fmt.Errorf("attempt %d has ended", c.Attempt),
	}
	p.reply(c)
}
