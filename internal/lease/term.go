package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/engine"
)

// join makes the workflows known to the server. It tries again until the server answers.
func (t *term) join(ctx context.Context) error {
	cfg := &t.holder.cfg
	options, err := encodeWorkflows(cfg.Workflows)
	if err != nil {
		return err
	}
	r := api.BodiesJoin{Node: t.node, Holder: t.id, Name: cfg.Name, Slots: t.slots, Options: options}
	for i := range cfg.Workflows {
		r.Workflows = append(r.Workflows, cfg.Workflows[i].Definition.Name)
	}
	for retry := time.Duration(0); ; {
		err := within(ctx, answerWithin, func(ctx context.Context) error { return cfg.Server.JoinBodies(ctx, r) })
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil || !temporary(err):
			return err
		case retry == 0:
			cfg.Log.Warn("the server takes no workflows at present; asking again", "error", err)
		}
		retry = min(max(2*retry, firstRetry), lastRetry)
		pause(ctx, retry)
	}
}

// serve works until ctx is done and everything has ended, or the server no longer knows the process.
func (t *term) serve(ctx context.Context) error {
	var work sync.WaitGroup
	work.Go(func() { t.end(t.take()) })
	work.Go(func() { t.end(t.give()) })
	defer work.Wait()
	select {
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	case <-ctx.Done():
		t.leave()
		t.end(nil)
		return nil
	}
}

// leave lets others continue the runs, and waits until the attempts have ended.
func (t *term) leave() {
	t.put(outgoing{up: up{Kind: upLeave}})
	drained := time.NewTimer(t.holder.cfg.DrainWithin)
	defer drained.Stop()
	for over := false; !over && !t.isIdle(); {
		select {
		case <-t.idle:
		case <-t.ctx.Done():
			return
		case <-drained.C:
			over = true
		}
	}
	gone := make(chan struct{})
	t.put(outgoing{up{Kind: upGone}, func(error) { close(gone) }})
	within := time.NewTimer(answerWithin)
	defer within.Stop()
	select {
	case <-gone:
	case <-within.C:
	case <-t.ctx.Done():
	}
}

// isIdle reports whether no attempt is at work.
func (t *term) isIdle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.live) == 0
}

// take takes news until the term ends.
func (t *term) take() error {
	cfg := &t.holder.cfg
	seen, heard, retry := uint64(0), time.Now(), time.Duration(0)
	for t.ctx.Err() == nil {
		var news api.News
		sent := time.Now()
		err := within(t.ctx, pollWait+answerWithin/2, func(ctx context.Context) (err error) {
			news, err = cfg.Server.TakeNews(ctx, api.NewsRequest{
				Node: t.node, Holder: t.id, Seen: seen, Wait: api.Duration(pollWait),
			})
			return err
		})
		var all []down
		if err == nil && len(news.News) > 0 {
			all, err = decodeDowns(news.News)
		}
		switch {
		case err == nil:
			seen, heard, retry = news.Number, sent, 0
			for i := range all {
				t.deliver(&all[i])
			}
		case t.ctx.Err() != nil:
		case api.CodeOf(err) == api.CodeStale:
			return errOver
		case !temporary(err):
			return err
		case time.Since(heard) > Silence: // others go on with the runs: they must not meet this process at work
			cfg.Log.Warn("the server does not answer; what runs here is stopped", "error", err)
			return errOver
		default:
			retry = min(max(2*retry, firstRetry), lastRetry)
			pause(t.ctx, retry)
		}
	}
	return context.Cause(t.ctx)
}

// deliver carries out the server's messages.
func (t *term) deliver(d *down) {
	h := t.holder
	h.calls.Lock()
	defer h.calls.Unlock()
	switch d.Kind {
	case downBegin:
		t.begin(d)
	case downNews: // counted last: if the call of the body has ended meanwhile, the server has to tell it again
		if l := t.lease(d.Run); l != nil && l.number == d.Lease {
			h.cfg.Host.ConsultFor(*d.News, l)
			l.seen.Add(1)
		}
	case downHeld:
		h.cfg.Host.Consult(engine.News{Run: d.Run, Held: true})
	case downEnd:
		if l := t.lease(d.Run); l != nil && l.number == d.Lease && t.forget(d.Run, l) {
			h.cfg.Host.Forget(d.Run)
			h.unbind(d.Run, t)
		}
	case downTask:
		t.mu.Lock()
		if !t.live[d.Task.Token] {
			t.live[d.Task.Token] = true
			t.tasks[d.Run]++
		}
		t.mu.Unlock()
		h.bind(d.Run, t)
		d.Task.Deadline = 0
		t.pool.DispatchFor(*d.Task, d.Left)
	case downOffer:
		t.asks(d)
	case downRevoke:
		t.pool.Revoke(d.Token, d.Why)
	}
}

// begin begins a lease. It replaces the lease that the run has, of this node or of another one. That node is told, and
// begins another one if it has the run after all: messages that a node sent before it lost the run may arrive late.
func (t *term) begin(d *down) {
	h := t.holder
	for _, before := range []*term{t, h.current(d.Run)} {
		if before == nil {
			continue
		}
		old := before.lease(d.Run)
		if !before.forget(d.Run, old) {
			continue
		}
		h.cfg.Host.Forget(d.Run)
		if before != t {
			before.put(outgoing{up: up{Kind: upEnd, Run: d.Run, Lease: old.number}})
		}
	}
	l := &held{term: t, number: d.Lease, over: make(chan struct{})}
	t.mu.Lock()
	t.leases[d.Run] = l
	t.mu.Unlock()
	h.bind(d.Run, t)
	h.cfg.Host.ConsultFor(*d.News, l)
	l.seen.Add(1)
}

// give sends the decisions to the server, until the term ends.
func (t *term) give() error {
	for number := uint64(1); ; {
		batch := t.next()
		if batch == nil {
			return context.Cause(t.ctx)
		}
		ups := make([]up, len(batch))
		for i := range batch {
			ups[i] = batch[i].up
		}
		b, n, err := encodeUps(ups)
		t.putBack(batch[n:])
		var answers []api.DecisionAnswer
		if err == nil {
			answers, err = t.send(number, n, b)
		}
		if n == 1 && api.CodeOf(err) == api.CodeTooLarge { // the server has not counted it
			if done := batch[0].done; done != nil {
				done(err)
			}
			continue
		}
		number++
		for i, o := range batch[:n] {
			switch {
			case o.done == nil:
			case err != nil:
				o.done(err)
			case answers[i].Error != nil:
				o.done(answers[i].Error)
			default:
				o.done(nil)
			}
		}
		if err != nil {
			return err
		}
	}
}

// next waits for a message to send; nil: the term has ended.
func (t *term) next() []outgoing {
	for {
		t.mu.Lock()
		n := min(len(t.out), atOnce)
		batch := slices.Clone(t.out[:n])
		t.out = slices.Delete(t.out, 0, n)
		if len(t.out) > 0 {
			wake(t.more)
		}
		t.mu.Unlock()
		if n > 0 {
			return batch
		}
		select {
		case <-t.more:
		case <-t.ctx.Done():
			return nil
		}
	}
}

// putBack puts messages that did not fit into one request before the newer ones.
func (t *term) putBack(rest []outgoing) {
	if len(rest) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out = slices.Insert(t.out, 0, rest...)
	wake(t.more)
}

// send gives the server n things, until it answers.
func (t *term) send(number uint64, n int, b []byte) ([]api.DecisionAnswer, error) {
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		var out api.DecisionAnswers
		err := within(t.ctx, answerWithin, func(ctx context.Context) (err error) {
			out, err = t.holder.cfg.Server.GiveDecisions(ctx, api.Decisions{
				Node: t.node, Holder: t.id, Number: number, Decisions: b,
			})
			return err
		})
		switch {
		case err == nil && len(out.Answers) == n:
			return out.Answers, nil
		case err == nil:
			return nil, errors.New("lease: the server has not answered everything")
		case t.ctx.Err() != nil:
			return nil, context.Cause(t.ctx)
		case api.CodeOf(err) == api.CodeStale:
			return nil, errOver
		case !temporary(err):
			return nil, err
		}
		pause(t.ctx, retry)
	}
}

// within calls fn with a time limit: a connection may break without a word.
func within(ctx context.Context, limit time.Duration, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return fn(ctx)
}

// temporary reports whether a request may succeed later.
func temporary(err error) bool {
	switch api.CodeOf(err) {
	case api.CodeInvalid, api.CodeNotFound, api.CodeReadOnly, api.CodeTooLarge, api.CodeNoToken, api.CodeForbidden,
		api.CodeConflict:
		return false
	default:
		return true
	}
}

// pause waits for a part of d, which differs from process to process.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d/2 + rand.N(d/2+1))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
