package pawltest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/fake"
	"github.com/pawl-dev/pawl/internal/nearest"
)

// fakeTable has the fakes of a test, across the engines that it opens.
type fakeTable struct {
	t testing.TB

	mu      sync.Mutex
	entries []*entry                      // the newest last
	engines map[*Env]fake.EngineHooks     // the engine that each has at present
	served  map[string]bool               // handlers that the engines serve for fakes
	runs    map[string]*entry             // the fakes of child runs; nil: their own functions run
	seen    map[fake.Kind]map[string]bool // the names that were called
	steps   map[string]fake.Target        // steps that call a handler or begin a child run, by their names
}

// fakesOf are the fakes of a test, as the engine of an environment has them.
type fakesOf struct {
	*fakeTable
	env *Env
}

var _ fake.Table = fakesOf{}

func newFakeTable(t testing.TB) *fakeTable {
	seen := map[fake.Kind]map[string]bool{}
	for kind := range kindNames {
		seen[kind] = map[string]bool{}
	}
	return &fakeTable{
		t: t, engines: map[*Env]fake.EngineHooks{}, served: map[string]bool{}, runs: map[string]*entry{}, seen: seen,
		steps: map[string]fake.Target{},
	}
}

// add adds a fake, and tells the engines of it.
func (t *fakeTable) add(e *entry) error {
	e.t = t.t
	t.mu.Lock()
	t.entries = append(t.entries, e)
	engines := slices.Collect(maps.Values(t.engines))
	serve := e.kind == fake.Call && !t.served[e.name]
	if serve {
		t.served[e.name] = true
	}
	t.mu.Unlock()
	var errs []error
	for _, engine := range engines {
		switch {
		case serve:
			if err := engine.Serve(e.name); !errors.Is(err, pawl.ErrClosed) {
				errs = append(errs, err)
			}
		case e.kind == fake.Child:
			engine.Registered()
		}
	}
	return errors.Join(errs...)
}

func (t fakesOf) Attach(engine fake.EngineHooks) {
	t.mu.Lock()
	t.engines[t.env] = engine
	handlers := slices.Sorted(maps.Keys(t.served))
	t.mu.Unlock()
	for _, name := range handlers {
		if err := engine.Serve(name); err != nil {
			t.t.Error(err)
		}
	}
}

// find returns the fake that stands in for a target. It is called with mu held.
func (t *fakeTable) find(kind fake.Kind, name string) *entry {
	var found *entry
	best := -1
	for _, e := range t.entries {
		exact := len(strings.ReplaceAll(e.name, "*", ""))
		fits := e.name == name || kind == fake.Step && matches(e.name, name)
		if e.kind == kind && fits && exact >= best {
			found, best = e, exact
		}
	}
	return found
}

// matches reports whether a name fits a pattern, in which each * stands for any text.
func matches(pattern, name string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == name
	}
	name, begins := strings.CutPrefix(name, first)
	if !begins {
		return false
	}
	for i := 0; i <= len(name); i++ {
		if matches(rest, name[i:]) {
			return true
		}
	}
	return false
}

func (t *fakeTable) Has(target fake.Target) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.find(target.Kind, target.Name) != nil
}

func (t *fakeTable) Find(target fake.Target) fake.Func {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen[target.Kind][target.Name] = true
	e := t.find(target.Kind, target.Name)
	if target.Kind == fake.Child {
		// A body that is called again has to do the same: a fake that came meanwhile is for later runs.
		first, known := t.runs[target.Run]
		if known {
			e = first
		}
		t.runs[target.Run] = e
	}
	if e == nil {
		return nil
	}
	wanted := target.Out
	if target.Kind == fake.Step && wanted == nil {
		wanted = t.steps[baseOf(target.Name)].Out // nil, unless it calls a handler
	}
	return func(ctx context.Context, in func(any) error) (any, error) {
		wanted := wanted
		if wanted == nil {
			e.mu.Lock()
			wanted = e.wanted
			e.mu.Unlock()
		}
		what := fmt.Sprintf("step %q", target.Name)
		if e.kind != fake.Step {
			what = "its caller"
		}
		if e.out != anyType && wanted != nil && !e.out.AssignableTo(wanted) {
			return nil, t.fail(e, fmt.Sprintf("returns %s, but %s returns %s", e.out, what, wanted))
		}
		out, err := e.call(ctx, in)
		if err == nil && out != nil && wanted != nil && !reflect.TypeOf(out).AssignableTo(wanted) {
			return nil, t.fail(e, fmt.Sprintf("returned %T, but %s returns %s", out, what, wanted))
		}
		return out, err
	}
}

// baseOf returns the name that a body gave to a step, from the step's key.
func baseOf(step string) string {
	name, _, _ := strings.Cut(step[strings.LastIndex(step, "/")+1:], "#")
	return name
}

var anyType = reflect.TypeFor[any]()

func (t *fakeTable) Asked(step string, target fake.Target) error {
	t.mu.Lock()
	t.seen[target.Kind][target.Name] = true
	t.steps[step] = target
	e := t.find(target.Kind, target.Name)
	t.mu.Unlock()
	if e == nil {
		return nil
	}
	e.mu.Lock()
	e.wanted = target.Out
	e.mu.Unlock()
	if e.in != anyType && e.in != target.In || e.out != anyType && e.out != target.Out {
		return t.fail(e, fmt.Sprintf("takes %s and returns %s, but step %q gives %s and wants %s", e.in, e.out, step,
			target.In, target.Out))
	}
	return nil
}

func (t *fakeTable) StandsIn(run string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.runs[run] != nil
}

// fail fails the test because of a fake, once, and returns the error that ends what called it.
func (t *fakeTable) fail(e *entry, why string) error {
	text := fmt.Sprintf("pawltest: the fake of %s %s", e, why)
	e.mu.Lock()
	told := e.told
	e.told = true
	e.mu.Unlock()
	if !told {
		t.t.Error(text)
	}
	return pawl.NonRetryable(errors.New(text))
}

// check fails the test for each fake, and each answer, that was not used.
func (t *fakeTable) check() {
	t.t.Helper()
	t.mu.Lock()
	entries := slices.Clone(t.entries)
	t.mu.Unlock()
	for _, e := range entries {
		calls, answers := e.left()
		e.mu.Lock()
		fine := e.optional || e.told || calls > 0 && answers == 0
		e.mu.Unlock()
		switch {
		case fine:
		case calls > 0:
			t.t.Errorf("pawltest: the fake of %s was called %d times, and %d more of its answers were not asked for "+
				"(Optional allows that)", e, calls, answers)
		default:
			t.t.Errorf("pawltest: the fake of %s was never called%s (Optional allows that)", e, t.instead(e))
		}
	}
}

// instead tells what may have been meant by the name of a fake that was never called.
func (t *fakeTable) instead(e *entry) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if target, known := t.steps[baseOf(e.name)]; known && e.kind == fake.Step {
		with := map[fake.Kind]string{fake.Call: "FakeCall", fake.Child: "FakeChild"}[target.Kind]
		what := map[fake.Kind]string{fake.Call: "calls handler", fake.Child: "begins a child run of workflow"}
		return fmt.Sprintf(": the step %s %q, which %s fakes", what[target.Kind], target.Name, with)
	}
	known := slices.Sorted(maps.Keys(t.seen[e.kind]))
	if len(known) == 0 {
		return ": no " + kindNames[e.kind] + " was"
	}
	text := ""
	if near := nearest.Hint(e.name, known); near != "" {
		text = "; " + near
	}
	const most = 12
	more := ""
	if len(known) > most {
		more = fmt.Sprintf(" and %d more", len(known)-most)
		known = known[:most]
	}
	return fmt.Sprintf("%s; called were %q%s", text, known, more)
}
