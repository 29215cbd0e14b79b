package pawl

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"

	"github.com/pawl-dev/pawl/internal/core"
)

// Future is a result that may not be there yet: of [Async], [CallAsync], [ChildAsync], [EventAsync] or [Go].
type Future[T any] struct {
	session *session
	entry   *entry // of a step; nil: of a strand
	spec    *core.StepSpec
	codec   Codec

	// Of a strand, guarded by the session's lock.
	name    string
	ended   bool
	value   T
	err     error
	changed signal
}

// Waitable is a Future of any type, for [Any] and [All].
type Waitable interface {
	settled() bool
	signal() *signal
	outcome() error
	home() *session
	what() string
	missing() bool
}

func (f *Future[T]) settled() bool {
	if f.entry != nil {
		return f.entry.closed
	}
	return f.ended
}

func (f *Future[T]) signal() *signal {
	if f.entry != nil {
		return &f.entry.changed
	}
	return &f.changed
}

func (f *Future[T]) home() *session { return f.session }

func (f *Future[T]) missing() bool { return f == nil }

// outcome is the error of a settled future; the session is locked.
func (f *Future[T]) outcome() error {
	if f.entry != nil {
		return stepError(f.entry)
	}
	return f.err
}

func (f *Future[T]) what() string {
	if f.entry != nil {
		return describe(f.spec)
	}
	return fmt.Sprintf("strand %q", f.name)
}

func failed[T any](err error) *Future[T] { return &Future[T]{ended: true, err: err} }

// Get waits for the result.
func (f *Future[T]) Get(ctx Context) (T, error) {
	st := ctx.of()
	if f.session == nil {
		return f.value, f.err
	}
	if err := st.enterFor(f.what, f); err != nil {
		return f.value, err
	}
	st.wait(f.what, f.settled, f.signal())
	if f.entry == nil {
		defer st.session.mu.Unlock()
		return f.value, f.err
	}
	st.last = f.entry
	err, out := stepError(f.entry), f.entry.step.Output
	st.session.mu.Unlock()
	if err != nil {
		var zero T
		return zero, err
	}
	return decode[T](f.codec, "the result of "+f.what(), out)
}

// Go runs fn beside the rest of the body. Its steps have keys of their own, so that they do not disturb those of the
// others. The name must be unique among what the strand of ctx does next, or is numbered. Strands that still run when
// the body returns are unwound, and their open steps cancelled.
func Go[T any](ctx Context, name string, fn func(ctx Context) (T, error)) *Future[T] {
	st := ctx.of()
	if err := checkName(name); err != nil {
		return failed[T](st.invalid(err, "strand %q", name))
	}
	if fn == nil {
		return failed[T](st.invalid(errNoFunction, "strand %q", name))
	}
	if err := st.enter(named("strand", name)); err != nil {
		return failed[T](err)
	}
	defer st.session.mu.Unlock()
	return spawn(st, name, st.key(name), fn, func(error) {})
}

// spawn begins a strand. The session is locked, now and when over is called.
func spawn[T any](st *strand, name, key string, fn func(ctx Context) (T, error), over func(error)) *Future[T] {
	f := &Future[T]{session: st.session, name: name}
	child := &strand{session: st.session, prefix: key + "/", now: st.now, last: st.last}
	st.session.launch(child, func(child *strand) {
		var v T
		err := errors.New("the strand ended its goroutine instead of returning (runtime.Goexit, or FailNow of a test)")
		defer func() {
			if p := recover(); p != nil {
				err = newPanic(p, debug.Stack())
			}
			child.end(err, func() {
				f.value, f.err, f.ended = v, err, true
				over(err)
			}, &f.changed)
		}()
		v, err = fn(child)
	})
	return f
}

// end ends a strand that is not the body's own.
func (st *strand) end(err error, settle func(), sig *signal) {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if !st.ends("strand", err) {
		return
	}
	settle()
	s.fire(sig)
	s.running--
	s.settle()
}

// All waits until all futures have a result, and returns the first error in their order.
func All(ctx Context, futures ...Waitable) error {
	if err := ctx.of().present("all", futures); err != nil {
		return err
	}
	var first error
	for _, f := range futures {
		outcome, err := waitFor(ctx, f)
		if err != nil {
			return err
		}
		if first == nil {
			first = outcome
		}
	}
	return first
}

// present refuses futures that are not there.
func (st *strand) present(what string, futures []Waitable) error {
	for i, f := range futures {
		if f == nil || f.missing() {
			return st.invalid(fmt.Errorf("future %d is nil", i), "%s", what)
		}
	}
	return nil
}

// waitFor waits for a future's result and returns its error. It is read under the session's lock: news of a step that has ended
// may still come.
func waitFor(ctx Context, f Waitable) (outcome, err error) {
	st := ctx.of()
	if f.home() == nil {
		return f.outcome(), nil
	}
	if err := st.enterFor(named("pawl.All"), f); err != nil {
		return nil, err
	}
	st.wait(named("pawl.All"), f.settled, f.signal())
	outcome = f.outcome()
	st.session.mu.Unlock()
	return outcome, nil
}

// Any waits until one of the futures has a result and returns its index. Which one it was is recorded: a body that is
// called again sees the same one.
func Any(ctx Context, futures ...Waitable) (int, error) {
	st := ctx.of()
	if len(futures) == 0 {
		return -1, st.invalid(errors.New("without a future it waits for nothing"), "any")
	}
	if err := st.present("any", futures); err != nil {
		return -1, err
	}
	if err := st.enterFor(named("pawl.Any"), futures...); err != nil {
		return -1, err
	}
	key := st.key("any")
	if value := st.marked(key); value != nil {
		n, err := strconv.Atoi(string(value))
		if err != nil || n < 0 || n >= len(futures) {
			st.session.changed(fmt.Sprintf("future %s of %q", value, key), fmt.Sprintf("one of %d futures", len(futures)))
			st.leave()
		}
		f := futures[n]
		st.wait(named("pawl.Any"), func() bool { return f.home() == nil || f.settled() }, f.signal())
		st.session.mu.Unlock()
		return n, nil
	}
	first := func() int {
		for i, f := range futures {
			if f.home() == nil || f.settled() {
				return i
			}
		}
		return -1
	}
	signals := make([]*signal, len(futures))
	for i, f := range futures {
		signals[i] = f.signal()
	}
	st.wait(named("pawl.Any"), func() bool { return first() >= 0 }, signals...)
	n := first()
	st.mark(key, []byte(strconv.Itoa(n)))
	st.session.mu.Unlock()
	return n, nil
}

// Map runs fn for each item, at most atOnce at a time (0: all), and returns the results in the items' order. Each runs
// in a strand of its own. The first error in their order is returned when all have ended; those that have not begun by
// then are not begun.
func Map[In, Out any](ctx Context, name string, atOnce int, items []In, fn func(ctx Context, item In) (Out, error)) ([]Out, error) {
	st := ctx.of()
	if err := checkName(name); err != nil {
		return nil, st.invalid(err, "map %q", name)
	}
	if fn == nil {
		return nil, st.invalid(errNoFunction, "map %q", name)
	}
	if atOnce <= 0 || atOnce > len(items) {
		atOnce = len(items)
	}
	if err := st.enter(named("pawl.Map")); err != nil {
		return nil, err
	}
	key := st.key(name)
	futures := make([]*Future[Out], len(items))
	var changed signal
	begun, ended, broken := 0, 0, false
	over := func(err error) {
		ended++
		broken = broken || err != nil
		st.session.fire(&changed)
	}
	for begun > ended || (begun < len(items) && !broken) {
		for ; !broken && begun < len(items) && begun-ended < atOnce; begun++ {
			item := items[begun]
			one := func(ctx Context) (Out, error) { return fn(ctx, item) }
			futures[begun] = spawn(st, name, key+"["+strconv.Itoa(begun)+"]", one, over)
		}
		seen := ended
		st.wait(named("pawl.Map"), func() bool { return ended > seen }, &changed)
	}
	defer st.session.mu.Unlock()
	out := make([]Out, len(items))
	for i := range begun {
		if futures[i].err != nil {
			return nil, fmt.Errorf("item %d: %w", i, futures[i].err)
		}
		out[i] = futures[i].value
	}
	return out, nil
}
