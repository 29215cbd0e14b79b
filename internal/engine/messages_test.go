package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/policy"
)

// partitionPair has the two partitions of one journal. They run in virtual time.
type partitionPair struct {
	t       *testing.T
	journal *memory.Journal
	p       [2]*Partition
	plans   map[string]journal.Definition
	now     core.Time
	seed    uint64
	sent    []int
}

func newPartitionPair(t *testing.T) *partitionPair {
	w := &partitionPair{t: t, journal: memory.NewPartitions(2), plans: map[string]journal.Definition{}, now: epoch}
	for n := range w.p {
		w.p[n] = NewPartition(w.config(n))
		w.open(n)
	}
	return w
}

func (w *partitionPair) config(n int) Config {
	return Config{
		Journal: w.journal, Partition: n, Owner: fmt.Sprint("owner ", n),
		Random: func() uint64 { w.seed++; return w.seed * 0x9e3779b97f4a7c15 },
		Sent:   func(to int) { w.sent = append(w.sent, to) },
		Kinds:  map[string]Kind{"plan": {Compile: compilePlan, Child: jsonChild(w.resolve)}},
	}
}

func (w *partitionPair) resolve(_ core.DefinitionID, name string) (journal.Definition, error) {
	d, ok := w.plans[name]
	if !ok {
		return d, errors.New("unknown")
	}
	return d, nil
}

func (w *partitionPair) open(n int) {
	w.t.Helper()
	if err := w.p[n].Open(context.Background(), w.now); err != nil {
		w.t.Fatal(err)
	}
}

// settle runs both partitions until nothing is left to do at this instant.
func (w *partitionPair) settle() {
	w.t.Helper()
	for range 1000 {
		idle := true
		for n, p := range w.p {
			p.Refill(w.now)
			p.Tick(w.now)
			if f, ok := p.Fetch(w.now); ok {
				messages, err := w.journal.Inbox(context.Background(), n, f.After, f.Limit)
				p.Fetched(f, messages, err, w.now)
				idle = false
			}
			if b := p.Cut(w.now); b != nil {
				idle = false
				if err := w.journal.Append(context.Background(), b); err != nil {
					p.Failed(err)
					w.open(n)
				} else {
					p.Committed(w.now)
				}
			}
		}
		for _, to := range w.sent {
			w.p[to].Expect()
			idle = false
		}
		w.sent = w.sent[:0]
		if idle {
			return
		}
	}
	w.t.Fatal("after 1000 rounds the partitions still have something to do")
}

// pass moves the time on in steps of 100 ms.
func (w *partitionPair) pass(d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); w.now < end; w.now = w.now.Add(100 * time.Millisecond) {
		w.settle()
	}
}

func (w *partitionPair) start(n int, p plan, more ...func(*StartRequest)) core.RunID {
	w.t.Helper()
	req := StartRequest{Definition: p.definition(), Start: core.Start{Input: []byte("null")}}
	for _, m := range more {
		m(&req)
	}
	c := &StartCall{Start: req}
	w.p[n].Handle(c, w.now)
	if c.Err != nil {
		w.t.Fatal(c.Err)
	}
	return c.Answer.Run
}

func (w *partitionPair) wantPhase(id core.RunID, want core.RunPhase) {
	w.t.Helper()
	page, err := w.journal.List(context.Background(), journal.Query{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range page.Runs {
		if r.ID == id && r.Phase != want {
			w.t.Fatalf("run %s is %s, want %s", id, r.Phase, want)
		}
	}
}

// children counts the child runs in a phase, by partition.
func (w *partitionPair) children(phase core.RunPhase) (n [2]int) {
	w.t.Helper()
	page, err := w.journal.List(context.Background(), journal.Query{Limit: 100})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range page.Runs {
		if r.Parent != (core.RunID{}) && r.Phase == phase {
			n[r.Partition]++
		}
	}
	return n
}

// spread returns a step that starts a child run in any partition.
func spread(payload string) planStep {
	s := child(payload)
	s.Spread = true
	return s
}

// parentOf returns a plan that starts child runs in any partition, one after the other.
func parentOf(children int, payload string) plan {
	p := flow("parent")
	for range children {
		p.Steps = append(p.Steps, spread(payload))
	}
	return p
}

func TestSpreadChildren(t *testing.T) {
	w := newPartitionPair(t)
	w.plans["kid"] = flow("kid", nap(time.Second)).definition()
	id := w.start(0, parentOf(8, `{"name":"kid"}`))
	w.pass(30 * time.Second)
	w.wantPhase(id, core.RunSucceeded)
	if n := w.children(core.RunSucceeded); n[0] == 0 || n[1] == 0 || n[0]+n[1] != 8 {
		t.Errorf("children by partition: %v", n)
	}
	for n := range w.p {
		if in, err := w.journal.Inbox(t.Context(), n, nil, 100); err != nil || len(in) > 0 {
			t.Errorf("messages are left: %v, %v", in, err)
		}
	}
}

// TestChildThatCannotStart checks that the parent is told if the other partition cannot use the child's definition.
func TestChildThatCannotStart(t *testing.T) {
	w := newPartitionPair(t)
	w.plans["kid"] = flow("kid", nap(time.Second)).definition()
	cfg := w.config(1)
	cfg.Kinds = map[string]Kind{"plan": {Compile: func(d journal.Definition) (*core.Definition, error) {
		return nil, errors.New("a version that does not know it")
	}}}
	if err := w.p[1].Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.p[1] = NewPartition(cfg)
	w.open(1)
	id := w.start(0, parentOf(8, `{"name":"kid"}`))
	w.pass(30 * time.Second)
	w.wantPhase(id, core.RunFailed)
	h, err := w.journal.History(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%+v", core.Restore(id, nil, h.Entries).Failure)
	if !strings.Contains(text, "a version that does not know it") {
		t.Error(text)
	}
}

// TestUncertainSend checks that the receiver is told about messages whose batch is stored although the sender gets an
// error.
func TestUncertainSend(t *testing.T) {
	w := newPartitionPair(t)
	w.plans["kid"] = flow("kid", nap(time.Second)).definition()
	lost := 0
	w.journal.Fault = func(op memory.Op, b *journal.Batch) error {
		if op == memory.OpAck && len(b.Out) > 0 {
			lost++
			return errors.New("the acknowledgement is lost")
		}
		return nil
	}
	id := w.start(0, parentOf(8, `{"name":"kid"}`))
	w.pass(30 * time.Second)
	w.wantPhase(id, core.RunSucceeded)
	if n := w.children(core.RunSucceeded); n[0]+n[1] != 8 || lost == 0 {
		t.Errorf("children by partition: %v, %d acknowledgements lost", n, lost)
	}
}

// TestMessagesTwice delivers all messages again, many times and also after a restart of the receiver. They are taken
// once.
func TestMessagesTwice(t *testing.T) {
	w := newPartitionPair(t)
	w.plans["kid"] = flow("kid", nap(time.Minute)).definition()
	w.start(0, parentOf(8, `{"name":"kid"}`))
	w.start(0, parentOf(1, `{"name":"kid"}`))
	var all []journal.Message
	again := func(messages []journal.Message) {
		p := w.p[1]
		p.Expect()
		f, ok := p.Fetch(w.now)
		if !ok {
			t.Fatal("nothing is to be read")
		}
		p.Fetched(f, messages, nil, w.now)
	}
	for range 100 {
		b := w.p[0].Cut(w.now)
		if b != nil {
			all = append(all, b.Out...)
			if err := w.journal.Append(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			w.p[0].Committed(w.now)
		}
		again(all)
		again(all)
		w.pass(time.Second)
	}
	if err := w.p[1].Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.p[1] = NewPartition(w.config(1))
	w.open(1)
	before := w.p[1].pipeline.open.seq
	again(all)
	if w.p[1].pipeline.open.mustSave() || w.p[1].pipeline.open.seq != before {
		t.Error("messages that were taken before the restart changed something")
	}
}

// TestUnreadableMessage checks that a message that only a newer version can read stays in the inbox, with those after
// it.
func TestUnreadableMessage(t *testing.T) {
	w := newPartitionPair(t)
	b := &journal.Batch{Epoch: 1, Seq: 1}
	unknown, readable := []byte{0xf0}, core.AppendMessage(nil, &core.Message{Name: "x", Content: core.ChildAsk{}})
	for n, encoded := range [][]byte{unknown, readable} {
		b.Out = append(b.Out, journal.Message{To: 1, Seq: journal.MessageSeq(1, n), Encoded: encoded})
	}
	if err := w.journal.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w.p[1].Expect()
	f, _ := w.p[1].Fetch(w.now)
	in, err := w.journal.Inbox(t.Context(), 1, f.After, f.Limit)
	w.p[1].Fetched(f, in, err, w.now)
	if len(in) != 2 || w.p[1].Cut(w.now) != nil {
		t.Errorf("%d messages were read, and some were taken", len(in))
	}
}

// TestHomes checks that a start is accepted only by the partition that its workflow id or key belongs to.
func TestHomes(t *testing.T) {
	w := newPartitionPair(t)
	p := flow("one", nap(time.Second))
	for n := range 20 {
		req := StartRequest{Definition: p.definition(), Start: core.Start{WorkflowID: fmt.Sprint("order-", n)}}
		home, named, err := Home(&req, 2)
		if err != nil || !named {
			t.Fatal(named, err)
		}
		c := &StartCall{Start: req}
		w.p[1-home].Handle(c, w.now)
		if !errors.Is(c.Err, ErrInvalid) {
			t.Errorf("a start in the wrong partition: %v", c.Err)
		}
		c = &StartCall{Start: req}
		if w.p[home].Handle(c, w.now); c.Err != nil || !w.p[home].owns(c.Answer.Run) {
			t.Errorf("%s: %v", c.Answer.Run, c.Err)
		}
		if id := w.start(home, p); !w.p[home].owns(id) {
			t.Errorf("a run without a name, started in partition %d, has the id %s", home, id)
		}
		otherKey := core.KeyOfWorkflowID("order-1") + 1
		other := StartRequest{RunID: core.NewRunID(w.now, otherKey, 1, 1), Start: core.Start{WorkflowID: "order-1"}}
		if _, _, err := Home(&other, 2); !errors.Is(err, ErrInvalid) {
			t.Errorf("a run id and a workflow id of different partitions: %v", err)
		}
	}
	c := &InputCall{Run: core.NewRunID(w.now, 1, 1, 1), Input: core.SignalReceived{Name: "x", Payload: []byte("null")}}
	if w.p[0].Handle(c, w.now); !errors.Is(c.Err, ErrNotFound) {
		t.Errorf("a run of the other partition: %v", c.Err)
	}
}

// TestDeadlineThatHasPassed checks that a child still times out if the moved deadline of its parent has passed when the
// child is told.
func TestDeadlineThatHasPassed(t *testing.T) {
	w := newPartitionPair(t)
	w.plans["kid"] = flow("kid", nap(time.Hour)).definition()
	far := policy.Limit{After: time.Minute}
	for range 20 { // some of the children are in the other partition
		w.start(0, parentOf(1, `{"name":"kid","close":"abandon"}`), func(s *StartRequest) { s.Execution = &far })
	}
	w.pass(time.Second)
	page, err := w.journal.List(t.Context(), journal.Query{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Runs {
		if r.Parent == (core.RunID{}) {
			op := core.Operation{
				Op: core.OpExtend, Step: core.NoStep,
				Limit: policy.LimitExecution, To: w.now.Add(50 * time.Millisecond),
			}
			w.p[0].Handle(&InputCall{Run: r.ID, Input: op}, w.now)
		}
	}
	b := w.p[0].Cut(w.now)
	if err := w.journal.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(200 * time.Millisecond) // the commit took long
	w.p[0].Committed(w.now)
	w.pass(10 * time.Second)
	if n := w.children(core.RunTimedOut); n[0]+n[1] != 20 || n[1] == 0 {
		t.Errorf("children that have timed out, by partition: %v", n)
	}
}
