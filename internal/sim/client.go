package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// clients start runs and operate on them. They keep their requests until these are answered.
type clients struct {
	u       *universe
	count   int
	waiting []*request // not answered yet
	signals []request  // sent before; some are sent again

	queues   random
	queueing bool // clients start runs into queues
}

// request is one call of a client. The call carries its mark, so that the checker finds the request in the journal.
type request struct {
	call     engine.Call
	mark     string
	to       *node
	repeated bool // another call may have put the same signal or start into the journal
	tries    int
}

func newClients(u *universe) *clients {
	c := &clients{u: u, queues: newRandom(u.seed, 0x90e)}
	c.queueing = c.queues.chance(0.4) || len(u.opt.RunQueues) > 0
	return c
}

// plan puts what the clients will do on the agenda.
func (c *clients) plan() {
	u := c.u
	length := u.end.Sub(epoch)
	for range 1 + u.IntN(u.opt.Runs) {
		u.agenda.add(epoch.Add(u.between(0, length*2/3)), "a client starts a run", c.startSomeRun)
	}
	for range u.IntN(3 * u.opt.Runs) {
		u.agenda.add(epoch.Add(u.between(0, length)), "a client acts", c.actOnSomeRun)
	}
	for range u.IntN(3 * u.opt.Runs) {
		u.agenda.add(epoch.Add(u.between(0, length)), "an event comes", c.sendSomeEvent)
	}
}

func (c *clients) mark() string {
	c.count++
	return fmt.Sprintf("#%d", c.count)
}

// send sends a request to the node that owns the partition, or sometimes to its former owner.
func (c *clients) send(r *request) {
	u := c.u
	s := u.partitionOfCall(r.call)
	n := s.node
	if s.formerOwner != nil && u.chance(0.4) {
		n = s.formerOwner
	}
	if !n.up() || n.cannotStart(r.call) {
		if u.noFaults || u.chance(0.5) {
			u.after(u.span(100*time.Millisecond, time.Minute), "a client tries again", func() { c.send(r) })
		}
		return
	}
	r.to = n
	r.call.Answered().Done = func(error) { c.takeAnswer(r) }
	c.waiting = append(c.waiting, r)
	n.call(r.call)
}

func (c *clients) takeAnswer(r *request) {
	i := slices.Index(c.waiting, r)
	if i < 0 {
		return
	}
	c.waiting = slices.Delete(c.waiting, i, i+1)
	var run core.RunID
	start, _ := r.call.(*engine.StartCall)
	if start != nil {
		run = start.Answer.Run
	}
	err := r.call.Answered().Err
	c.u.tracef("answer to %s: run %s, %v", r.mark, short(run), err)
	c.u.checker.checkAnswer(r)
	if err != nil && named(start) {
		c.repeatStart(start, r.tries)
	}
}

// named reports whether a start has a key or run id. Such a one can be repeated safely.
func named(c *engine.StartCall) bool {
	return c != nil && (c.Start.Key != "" || c.Start.RunID != core.RunID{})
}

// nodeEnded drops the requests that a dead process can no longer answer. A start with a name is repeated.
func (c *clients) nodeEnded(n *node) {
	var rest []*request
	for _, r := range c.waiting {
		if r.to != n {
			rest = append(rest, r)
		} else if start, _ := r.call.(*engine.StartCall); named(start) {
			c.repeatStart(start, r.tries)
		}
	}
	c.waiting = rest
}

// repeatStart sends a start again with the same key or run id, and its own mark.
func (c *clients) repeatStart(start *engine.StartCall, tries int) {
	if tries++; tries > 3 {
		return
	}
	call := &engine.StartCall{Start: start.Start}
	next := &request{call: call, mark: c.mark(), tries: tries}
	call.Start.Reason, call.Start.Headers = next.mark, headersOfStart(next.mark)
	c.u.after(c.u.span(time.Millisecond, time.Minute), "a client starts a run again", func() { c.send(next) })
}

// allAnswered reports whether every client has its answer.
func (c *clients) allAnswered() bool { return len(c.waiting) == 0 }

func (c *clients) startSomeRun() {
	u := c.u
	most, at := workflows, workflowAt
	if u.chance(u.profile.bodyRuns) {
		most, at = programs, programAt
	}
	n := u.IntN(most)
	for tries := 0; len(u.partitions) > 1 && tries < 6 && !at(n).spreads(); tries++ {
		n = u.IntN(most)
	}
	w := at(n)
	if w.err != nil {
		u.violate(Recorded, core.RunID{}, "a generated workflow does not compile: %v\n%s", w.err, w.source.Source)
		return
	}
	r := &request{mark: c.mark()}
	s := engine.StartRequest{
		Definition: w.source,
		Start: core.Start{
			Input: fmt.Appendf(nil, `{"n":%d,"list":[%s]}`, u.IntN(8), list(u.IntN(7))), Reason: r.mark,
			Actor: "client", Headers: headersOfStart(r.mark),
		},
	}
	if n%3 == 0 {
		s.Labels = core.Labels(fmt.Sprintf("n=%d\nstart=client", n%4))
	}
	if u.chance(0.3) {
		s.WorkflowID = fmt.Sprintf("order-%d", u.IntN(4))
		s.OnConflict = engine.Conflict(u.IntN(2))
	}
	if u.chance(0.3) { // few keys with few workflows and inputs, so that starts use the same key
		key := u.IntN(12)
		s.Key, s.Definition = fmt.Sprintf("key-%d", key/2), at(key).source
		if n%4 > 0 {
			s.Input = fmt.Appendf(nil, `{"n":%d,"list":[1]}`, key%8)
		}
	}
	if u.chance(0.1) || len(u.partitions) > 1 && u.chance(0.3) {
		s.Notify = fmt.Sprintf("order-%d", u.IntN(4))
	}
	if u.chance(0.15) {
		s.RunID = clientID(u, &s)
	}
	if u.chance(0.15) {
		s.At = u.clock().Add(u.span(time.Millisecond, time.Hour))
	}
	if u.chance(0.3) {
		s.Run = c.limit()
	}
	if u.chance(0.3) {
		s.Execution = c.limit()
	}
	s.Queue = c.runQueue()
	r.call = &engine.StartCall{Start: s}
	c.send(r)
	if u.chance(0.2) {
		c.startSomeRun() // some clients start many runs at once
	}
}

func (c *clients) limit() *policy.Limit {
	l := &policy.Limit{After: c.u.span(time.Second, 6*time.Hour), Origin: "client"}
	if c.u.chance(0.3) {
		l.Warn = 10 + c.u.IntN(89)
	}
	return l
}

// clientID makes a run id in the client, so that the client can repeat its start safely.
func clientID(u *universe, s *engine.StartRequest) core.RunID {
	high, low := u.Uint64(), u.Uint64()
	key := core.KeyOfStart(s.Definition.Name, s.WorkflowID, s.Key, uint16(low>>48))
	return core.NewRunID(u.clock(), key, high, low)
}

func list(n int) string {
	out := ""
	for i := range n {
		if i > 0 {
			out += ","
		}
		out += fmt.Sprint(i)
	}
	return out
}

// someRun chooses a run, most often one that is open.
func (c *clients) someRun() *account {
	u, ch := c.u, c.u.checker
	if len(ch.order) == 0 {
		return nil
	}
	a := pick(u.random, ch.order)
	for range 3 {
		if !a.model.closed {
			break
		}
		a = pick(u.random, ch.order)
	}
	return a
}

func (c *clients) sendSomeEvent() {
	a := c.someRun()
	if a == nil {
		return
	}
	u := c.u
	if len(c.signals) > 0 && u.chance(0.2) {
		old := pick(u.random, c.signals)
		sent := old.call.(*engine.InputCall)
		r := &request{call: &engine.InputCall{Run: sent.Run, Input: sent.Input}, mark: old.mark, repeated: true}
		c.send(r)
		return
	}
	r := &request{mark: fmt.Sprintf(`"#%d"`, c.count)}
	c.count++
	in := core.SignalReceived{Name: pick(u.random, events), Payload: []byte(r.mark), Actor: "client"}
	for i := range a.model.steps {
		if s := &a.model.steps[i]; !s.closed && s.kind == core.KindWait && s.spec.Update == "" && u.chance(0.7) {
			in.Name = pick(u.random, awaited(s.spec))
		}
	}
	if u.chance(0.6) {
		in.ID = fmt.Sprintf("event-%d", u.IntN(6))
		r.repeated = true // another signal may have the same id
	}
	r.call = &engine.InputCall{Run: a.id, Input: in}
	if in.ID != "" {
		c.signals = append(c.signals, *r)
	}
	c.send(r)
}

func (c *clients) operate(id core.RunID, op core.Operation) {
	r := &request{mark: c.mark()}
	op.Actor, op.Reason = "client", r.mark
	r.call = &engine.InputCall{Run: id, Input: op}
	c.send(r)
}

// promisesNotSaved reports whether an error promises that nothing was recorded.
func promisesNotSaved(err error) bool {
	var e *engine.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case engine.CodeUncertain, engine.CodeFenced, engine.CodeStorage, engine.CodeInternal, engine.CodeCancelled,
		engine.CodeClosed:
		return false
	default:
		return true
	}
}
