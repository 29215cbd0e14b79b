package service

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// absentNode is a node that owns no partition, and knows at most one other one.
type absentNode struct {
	owner   api.Node
	changed chan struct{}
	asks    bool  // another node asks
	fails   error // why it cannot take partitions
}

func (*absentNode) Runs(int) bool              { return false }
func (*absentNode) PartitionCount() int        { return 4 }
func (*absentNode) Owned() []int               { return nil }
func (n *absentNode) Owner(int) api.Node       { return n.owner }
func (n *absentNode) Anyone() api.Node         { return n.owner }
func (n *absentNode) Changed() <-chan struct{} { return n.changed }
func (*absentNode) Lookup(_ context.Context, name string) (core.RunID, error) {
	return core.RunID{}, noSuchRun(name)
}
func (n *absentNode) Asks(context.Context) bool { return n.asks }
func (n *absentNode) Failing() error            { return n.fails }

// failing is the service of a node that answers with one error after the other, and then succeeds.
type failing struct {
	api.Node
	errs  []error
	asked int
}

func (f *failing) answer() error {
	f.asked++
	if f.asked > len(f.errs) {
		return nil
	}
	return f.errs[f.asked-1]
}

func (f *failing) Send(context.Context, string, api.SendRequest) error { return f.answer() }

func (f *failing) Start(context.Context, api.StartRequest) (api.Started, error) {
	return api.Started{}, f.answer()
}

func (f *failing) Run(context.Context, string) (*api.Run, error) {
	return &api.Run{RunSummary: api.RunSummary{Phase: api.RunRunning}}, f.answer()
}

func (f *failing) Watch(_ context.Context, _ string, after int, fn func(api.Event) error) error {
	if err := fn(api.Event{Seq: after + 1}); err != nil {
		return err
	}
	return f.answer()
}

const movePatience = 5 * time.Second

// TestPartitionWithoutOwner answers after a while that nobody has the partition, and that nothing was saved.
func TestPartitionWithoutOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &absentNode{}
		s := NewRouted(&Embedded{reads: &reads{}}, n, n, movePatience)
		began := time.Now()
		err := s.Send(t.Context(), "order-1", api.SendRequest{Name: "paid"})
		if api.CodeOf(err) != api.CodeHeld || api.CodeOf(err).HTTPStatus() != http.StatusServiceUnavailable ||
			time.Since(began) != movePatience {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		n.asks = true // it waits itself
		began = time.Now()
		for _, err := range []error{
			s.Send(t.Context(), "order-1", api.SendRequest{Name: "paid"}),
			second(s.Start(t.Context(), api.StartRequest{WorkflowID: "order-1"})),
			second(s.Start(t.Context(), api.StartRequest{})),
		} {
			if api.CodeOf(err) != api.CodeHeld || time.Since(began) != 0 {
				t.Errorf("another node asks: %v after %s", err, time.Since(began))
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// TestAskedAgain repeats what was not carried out because a partition moved, and nothing that may have been.
func TestAskedAgain(t *testing.T) {
	moved := []error{api.Sentinel(api.CodeHeld), api.Sentinel(api.CodeClosed)}
	unknown := []error{api.Sentinel(api.CodeUncertain)}
	synctest.Test(t, func(t *testing.T) {
		send := func(s *Routed) error { return s.Send(t.Context(), "order-1", api.SendRequest{Name: "paid"}) }
		read := func(s *Routed) error { _, err := s.Run(t.Context(), "order-1"); return err }
		for _, c := range []struct {
			name  string
			errs  []error
			do    func(*Routed) error
			asked int
			want  api.Code
		}{
			{"a change of a partition that moves", moved, send, 3, ""},
			{"a change that was saved or not", unknown, send, 1, api.CodeUncertain},
			{"a read that was answered by nobody", unknown, read, 2, ""},
			{"a refusal", []error{api.Sentinel(api.CodeNotFound)}, read, 1, api.CodeNotFound},
		} {
			f := &failing{errs: c.errs}
			n := &absentNode{owner: f}
			err := c.do(NewRouted(&Embedded{reads: &reads{}}, n, n, movePatience))
			if f.asked != c.asked || api.CodeOf(err) != c.want {
				t.Errorf("%s: asked %d times, %v", c.name, f.asked, err)
			}
		}
	})
}

// TestNobodyCanOwn says why a node does not take the partition that has no owner.
func TestNobodyCanOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &absentNode{fails: errors.New("the storage is read-only")}
		s := NewRouted(&Embedded{reads: &reads{}}, n, n, movePatience)
		err := s.Send(t.Context(), "order-1", api.SendRequest{Name: "paid"})
		if api.CodeOf(err) != api.CodeHeld || !strings.Contains(err.Error(), "at present: the storage is read-only") {
			t.Error(err)
		}
	})
}

// TestOwnerIsAway says of a node that is not reached for long that its runs move, and not that something was closed.
func TestOwnerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := slices.Repeat([]error{&api.Error{Code: api.CodeClosed, Message: "node-2 cannot be reached"}}, 1000)
		n := &absentNode{owner: &failing{errs: away}}
		s := NewRouted(&Embedded{reads: &reads{}}, n, n, movePatience)
		for what, err := range map[string]error{
			"send":           s.Send(t.Context(), "order-1", api.SendRequest{Name: "paid"}),
			"read":           second(s.Run(t.Context(), "order-1")),
			"start":          second(s.Start(t.Context(), api.StartRequest{WorkflowID: "order-1"})),
			"start, no name": second(s.Start(t.Context(), api.StartRequest{})),
		} {
			if api.CodeOf(err) != api.CodeHeld || !strings.Contains(err.Error(), "node-2 cannot be reached") {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// TestWatchGoesOn follows a run whose partition moves: each event comes once.
func TestWatchGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{errs: []error{api.Sentinel(api.CodeHeld), api.Sentinel(api.CodeFenced)}}
		n := &absentNode{owner: f}
		s := NewRouted(&Embedded{reads: &reads{}}, n, n, movePatience)
		var seen []int
		err := s.Watch(t.Context(), "order-1", 4, func(e api.Event) error { seen = append(seen, e.Seq); return nil })
		if err != nil || len(seen) != 3 || seen[0] != 5 || seen[2] != 7 {
			t.Errorf("seen %v, %v", seen, err)
		}
		full := errors.New("the caller wants no more")
		if err := s.Watch(t.Context(), "order-1", 0, func(api.Event) error { return full }); !errors.Is(err, full) {
			t.Error(err)
		}
	})
}

// silent is the service of a node that never answers.
type silent struct{ api.Service }

func (silent) Update(ctx context.Context, _ string, _ api.Update) (api.Answer, error) {
	<-ctx.Done()
	return api.Answer{}, ctx.Err()
}

func (silent) Run(ctx context.Context, _ string) (*api.Run, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) Send(ctx context.Context, _ string, _ api.SendRequest) error {
	<-ctx.Done()
	return ctx.Err()
}

// answering answers updates with the id that they have.
type answering struct{ api.Service }

func (answering) Update(_ context.Context, _ string, u api.Update) (api.Answer, error) {
	return api.Answer{Run: u.ID}, nil
}

func (answering) Run(_ context.Context, name string) (*api.Run, error) {
	return &api.Run{RunSummary: api.RunSummary{WorkflowID: name}}, nil
}

func (answering) Send(context.Context, string, api.SendRequest) error { return nil }

// movingNode knows another owner after a while.
type movingNode struct {
	absentNode
	first, then api.Node
	until       time.Time
}

func (n *movingNode) Owner(int) api.Node {
	if time.Now().Before(n.until) {
		return n.first
	}
	return n.then
}

func (n *movingNode) Changed() <-chan struct{} {
	changed := make(chan struct{})
	if left := time.Until(n.until); left > 0 {
		time.AfterFunc(left, func() { close(changed) })
	}
	return changed
}

// TestUpdateMoves checks that an update that waits at a node which has lost the run's partition is asked of the next
// owner.
func TestUpdateMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &movingNode{first: silent{}, then: answering{}, until: time.Now().Add(time.Minute)}
		s := NewRouted(&Embedded{reads: &reads{}}, n, n, movePatience)
		a, err := s.Update(t.Context(), "order-1", api.Update{Name: "approve", ID: "u-1"})
		if err != nil || a.Run != "u-1" {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// TestReadMoves checks that a request that only reads does not wait for a node that has lost the run's partition
// because it is cut off from its database. One that changes something does: it may be carried out.
func TestReadMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moves := time.Now().Add(3 * time.Second)
		n := &movingNode{first: silent{}, then: answering{}, until: moves}
		s := NewRouted(&Embedded{reads: &reads{}}, n, n, movePatience)
		r, err := s.Run(t.Context(), "order-1")
		if err != nil || r.WorkflowID != "order-1" || time.Since(moves) > 3*moveLook {
			t.Errorf("%+v, %v, %s after the partition has moved", r, err, time.Since(moves))
		}
		n.until = time.Now().Add(3 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Send(ctx, "order-1", api.SendRequest{Name: "paid"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an event: %v", err)
		}
	})
}

// leavingNode owns the partition of each run until somebody lists its runs. Then the partition is with another node,
// or on its way there.
type leavingNode struct {
	source
	leaves bool // it takes no requests any more, and is not gone yet
	left   chan struct{}
	other  api.Node
}

func (n *leavingNode) Runs(int) bool            { return !n.leaves && !over(n.left) }
func (*leavingNode) PartitionCount() int        { return 4 }
func (*leavingNode) Owned() []int               { return nil }
func (n *leavingNode) Owner(int) api.Node       { return n.other }
func (n *leavingNode) Anyone() api.Node         { return n.other }
func (n *leavingNode) Changed() <-chan struct{} { return n.left }
func (*leavingNode) Lookup(_ context.Context, name string) (core.RunID, error) {
	return core.RunID{}, noSuchRun(name)
}
func (*leavingNode) Asks(context.Context) bool { return false }
func (*leavingNode) Failing() error            { return nil }

func (n *leavingNode) List(context.Context, journal.Query) (journal.Page, error) {
	if n.left == nil {
		n.leaves = true
	} else {
		close(n.left)
	}
	return journal.Page{}, nil // the view is late
}

// TestRunOfAPartitionThatLeaves checks that a run which the view does not have yet is asked of the next owner, and not
// said to be unknown, when its partition leaves while it is looked for, or has begun to.
func TestRunOfAPartitionThatLeaves(t *testing.T) {
	for name, left := range map[string]chan struct{}{"gone": make(chan struct{}), "going": nil} {
		n := &leavingNode{left: left, other: answering{}}
		s := NewRouted(&Embedded{reads: &reads{src: n}}, n, n, movePatience)
		if err := s.Send(t.Context(), "order-1", api.SendRequest{Name: "paid"}); err != nil {
			t.Error(name, err)
		}
	}
}

// knowingNode is a node whose partition knows a run that the view does not have.
type knowingNode struct {
	absentNode
	run core.RunID
}

func (*knowingNode) Runs(int) bool                                        { return true }
func (n *knowingNode) Lookup(context.Context, string) (core.RunID, error) { return n.run, nil }

// TestRunIsLookedUpOnce checks that a request gets the run's id where that was looked up: whoever looked once more
// might know less, since the partition may have left.
func TestRunIsLookedUpOnce(t *testing.T) {
	n := &knowingNode{run: core.RunID{15: 1}}
	s := NewRouted(&Embedded{reads: &reads{}}, n, n, movePatience)
	s.For(answering{})
	r, err := s.Run(t.Context(), "order-1")
	if err != nil || r.WorkflowID != n.run.String() {
		t.Errorf("the run is asked for as %+v, %v", r, err)
	}
}

// TestEveryReadIsForwarded checks that a read of a run is asked of the node that has the run: Routed has the method
// itself, and not that of the service of this node, which it embeds, as it has that of lists.
func TestEveryReadIsForwarded(t *testing.T) {
	reader, routed := reflect.TypeFor[api.Reader](), reflect.TypeFor[*Routed]()
	for i := range reader.NumMethod() {
		read := reader.Method(i)
		here, _ := routed.MethodByName(read.Name)
		file, _ := runtime.FuncForPC(here.Func.Pointer()).FileLine(here.Func.Pointer())
		ofOne := read.Type.In(1).Kind() == reflect.String && read.Name != "Definition"
		if forwards := file != "<autogenerated>"; forwards != ofOne {
			t.Errorf("%s is about one run: %t; Routed forwards it: %t", read.Name, ofOne, forwards)
		}
	}
}
