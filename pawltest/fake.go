package pawltest

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/fake"
)

// Fake stands in for a step's function, a handler or a workflow. It gives its answers one after the other: first to
// the first call, and so on. The last one goes to all further calls, unless [Fake.Times] says how many get it. A fake
// without answers returns a zero value.
//
//	pawltest.FakeStep[string](e, "charge").Fail(errBusy).Times(2).Return("txn-1") // fails twice, then succeeds
//
// A fake that is not called, or an answer that no call gets, fails the test when it ends: the test has not tried what
// it meant to try. See [Fake.Optional]. A fake whose types do not fit what it stands in for fails the test at once.
//
// What is faked again is faked by the newer one from then on. If several patterns fit a step, the one with the most
// letters that are not * counts.
type Fake[In, Out any] struct {
	entry *entry

	mu      sync.Mutex
	answers []answer[In, Out]
	next    answer[In, Out] // the answer that follows, as far as After has described it
	calls   []FakeCalled[In]
	at      int // the answer that the next call gets
	given   int // how many calls have got it
}

// FakeCalled is a call that a [Fake] has answered: the attempt, its input and its instant.
type FakeCalled[In any] struct {
	client.AttemptInfo
	In In
	At time.Time
}

// answer is what a fake returns.
type answer[In, Out any] struct {
	delay time.Duration
	do    func(ctx context.Context, in In) (Out, error)
	times int // 0: any number
}

// FakeStep puts a fake in the place of a step's function, in all runs. The step is named by its key: "charge",
// "charge#2" for the second call with that name, "items[3]/charge" in a branch. A * in the name stands for any text:
// "charge*", "items[*]/charge". Out is the type of the step's result; with any each answer is checked by itself. Steps
// with exec or http of flows can be faked, and hooks, which are named onFailure, onCancel and onExit.
func FakeStep[Out any](e *Env, step string) *Fake[client.AttemptInfo, Out] {
	e.checkMade()
	e.t.Helper()
	return newFake[client.AttemptInfo, Out](e, fake.Step, step, func(ctx context.Context, _ func(any) error) (
		client.AttemptInfo, error,
	) {
		return pawl.Attempt(ctx), nil
	})
}

// FakeCall puts a fake in the place of a handler, which may be one of another program ([pawl.HandlerRef]). It executes
// the handler's calls on every task queue, whether or not the test serves it.
func FakeCall[In, Out any](e *Env, h pawl.Handler[In, Out]) *Fake[In, Out] {
	e.checkMade()
	e.t.Helper()
	return newFake[In, Out](e, fake.Call, h.Name(), decoded[In])
}

// FakeChild puts a fake in the place of a workflow when it is begun by [pawl.Child]. The child run exists, with its
// limits and its retries, but the workflow's function and hooks are not called. A run that the test starts itself is
// not faked, unless the function is not here, because the workflow is a [pawl.Ref]. The history of a faked run is the
// fake's: it does not replay with the workflow's function.
func FakeChild[In, Out any](e *Env, w *pawl.Workflow[In, Out]) *Fake[In, Out] {
	e.checkMade()
	e.t.Helper()
	return newFake[In, Out](e, fake.Child, w.Name(), decoded[In])
}

func decoded[In any](_ context.Context, in func(any) error) (v In, err error) {
	err = in(&v)
	return v, err
}

func newFake[In, Out any](
	e *Env, kind fake.Kind, name string, input func(context.Context, func(any) error) (In, error),
) *Fake[In, Out] {
	e.t.Helper()
	f := &Fake[In, Out]{entry: &entry{
		kind: kind, name: name, in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
	}}
	f.entry.left = f.left
	f.entry.call = func(ctx context.Context, in func(any) error) (any, error) {
		v, err := input(ctx, in)
		if err != nil {
			return nil, e.fakes.fail(f.entry, fmt.Sprintf("takes %s, but cannot read its input as that: %v",
				f.entry.in, err))
		}
		info := pawl.Attempt(ctx)
		f.awaitAnswers(ctx)
		a, ok := f.take(FakeCalled[In]{info, v, time.Now()})
		if !ok {
			return nil, e.fakes.fail(f.entry, fmt.Sprintf("was called once more than its answers say, by step %q "+
				"of workflow %q: its last answer has Times", info.Step, info.Workflow))
		}
		return a.give(ctx, v)
	}
	if err := e.fakes.add(f.entry); err != nil {
		e.t.Fatal(err)
	}
	return f
}

// give waits for the answer's delay and gives it.
func (a *answer[In, Out]) give(ctx context.Context, in In) (any, error) {
	if a.delay > 0 {
		select {
		case <-time.After(a.delay):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if a.do == nil {
		return *new(Out), nil
	}
	return a.do(ctx, in)
}

// awaitAnswers waits for a moment of virtual time while the fake has no answers: a step that waited for its function
// asks as soon as the fake is there, and the test may be about to say what it answers.
func (f *Fake[In, Out]) awaitAnswers(ctx context.Context) {
	f.mu.Lock()
	empty := len(f.answers) == 0
	f.mu.Unlock()
	if !empty {
		return
	}
	select {
	case <-time.After(1):
	case <-ctx.Done():
	}
}

// take notes a call and returns the answer to it; false: there is none any more.
func (f *Fake[In, Out]) take(c FakeCalled[In]) (*answer[In, Out], bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, c)
	if len(f.answers) == 0 {
		return &answer[In, Out]{delay: f.next.delay}, true
	}
	if f.answers[f.at].times == f.given && f.given > 0 {
		if f.at == len(f.answers)-1 {
			return nil, false
		}
		f.at, f.given = f.at+1, 0
	}
	f.given++
	a := f.answers[f.at]
	if a.times == 0 && f.at < len(f.answers)-1 {
		f.at, f.given = f.at+1, 0
	}
	return &a, true
}

// left tells how often the fake was called, and how many answers nobody has got.
func (f *Fake[In, Out]) left() (calls, answers int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, a := range f.answers {
		switch {
		case i > f.at:
			answers += max(a.times, 1)
		case i == f.at:
			answers += max(max(a.times, 1)-f.given, 0)
		}
	}
	return len(f.calls), answers
}

// Do adds an answer that a function gives. Its context is that of the attempt, so that [pawl.Attempt] and
// [pawl.Heartbeat] work in it. The function may sleep: that is virtual time.
func (f *Fake[In, Out]) Do(fn func(ctx context.Context, in In) (Out, error)) *Fake[In, Out] {
	f.checkMade()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next.do = fn
	f.answers = append(f.answers, f.next)
	f.next = answer[In, Out]{}
	return f
}

// Return adds an answer: a result.
func (f *Fake[In, Out]) Return(out Out) *Fake[In, Out] {
	f.checkMade()
	return f.Do(func(context.Context, In) (Out, error) { return out, nil })
}

// Fail adds an answer: an error.
func (f *Fake[In, Out]) Fail(err error) *Fake[In, Out] {
	f.checkMade()
	return f.Do(func(context.Context, In) (Out, error) { return *new(Out), err })
}

// After makes the answer that follows take that long, in virtual time. It ends at once when its attempt is stopped.
func (f *Fake[In, Out]) After(d time.Duration) *Fake[In, Out] {
	f.checkMade()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next.delay = d
	return f
}

// Times says that so many calls get the last answer that was added, no more and no fewer.
func (f *Fake[In, Out]) Times(n int) *Fake[In, Out] {
	f.checkMade()
	t := f.entry.t
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if n < 1 || len(f.answers) == 0 {
		t.Fatalf("pawltest: Times(%d) of the fake of %s: it follows an answer, and takes at least 1", n, f.entry)
	}
	f.answers[len(f.answers)-1].times = n
	return f
}

// Optional allows that the fake is not called, or not for all of its answers.
func (f *Fake[In, Out]) Optional() *Fake[In, Out] {
	f.checkMade()
	f.entry.mu.Lock()
	defer f.entry.mu.Unlock()
	f.entry.optional = true
	return f
}

// Calls returns what the fake was called with so far.
func (f *Fake[In, Out]) Calls() []FakeCalled[In] {
	f.checkMade()
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]FakeCalled[In](nil), f.calls...)
}

// entry is a fake without its types.
type entry struct {
	kind    fake.Kind
	name    string // a pattern, of a step
	in, out reflect.Type
	call    fake.Func
	left    func() (calls, answers int)
	t       testing.TB

	mu       sync.Mutex
	optional bool
	told     bool         // the test has failed because of it
	wanted   reflect.Type // the result's type of a call or child where it was called last
}

func (e *entry) String() string { return kindNames[e.kind] + fmt.Sprintf(" %q", e.name) }

var kindNames = map[fake.Kind]string{fake.Step: "step", fake.Call: "handler", fake.Child: "workflow"}
