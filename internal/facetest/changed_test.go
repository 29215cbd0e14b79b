package facetest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/history"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/pawltest"
)

// shop is what the steps of the workflows here do outside: each takes an item, which must happen once.
type shop struct {
	mu    sync.Mutex
	taken map[string]int
	child atomic.Pointer[pawl.Workflow[none, string]] // bodies of a closed engine may still look at it
	other *pawl.Workflow[none, string]                // another one that a child may be of
}

func (s *shop) take(item string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[item]++
	return item, nil
}

// code is the code of a workflow at some time: the parent's, as a list of what it does one after the other.
type code func(s *shop) []part

// part is one thing that a body does.
type part func(ctx pawl.Context) error

// does makes the body of code.
func (c code) does(s *shop) part { return inOrder(c(s)...) }

func inOrder(parts ...part) part {
	return func(ctx pawl.Context) error {
		for _, p := range parts {
			if err := p(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// step takes an item in a step of that name.
func (s *shop) step(name, item string) part {
	return func(ctx pawl.Context) error {
		_, err := pawl.Step(ctx, name, func(context.Context) (string, error) { return s.take(item) })
		return err
	}
}

func nap(name string) part {
	return func(ctx pawl.Context) error { return pawl.Sleep(ctx, name, "1h") }
}

func (s *shop) kid(name string) part {
	return func(ctx pawl.Context) error {
		_, err := pawl.Child(ctx, name, s.child.Load(), none{})
		return err
	}
}

// branches does each part in a branch of that name, and waits for all.
func branches(names string, parts ...part) part {
	return func(ctx pawl.Context) error {
		var all []*pawl.Future[int]
		for i, name := range strings.Fields(names) {
			all = append(all, pawl.Go(ctx, name, func(ctx pawl.Context) (int, error) { return 0, parts[i](ctx) }))
		}
		return second(pawl.All(ctx, all...))
	}
}

// each does a part for each item of a Map.
func each(name string, atOnce int, items string, do func(item string) part) part {
	return func(ctx pawl.Context) error {
		_, err := pawl.Map(ctx, name, atOnce, strings.Fields(items), func(ctx pawl.Context, item string) (int, error) {
			return 0, do(item)(ctx)
		})
		return err
	}
}

// define makes the workflows of the shop as the code is now.
func (s *shop) define(main, kid code) []pawl.Definition {
	workflow := func(name string, c code) *pawl.Workflow[none, string] {
		return pawl.Define(name, func(ctx pawl.Context, _ none) (string, error) { return "done", c.does(s)(ctx) })
	}
	child := workflow("kid", kid)
	s.child.Store(child)
	s.other = workflow("other", func(s *shop) []part { return []part{s.step("o", "O")} })
	return []pawl.Definition{workflow("main", main), child, s.other}
}

// change is a change of a workflow's code.
type change struct {
	name string
	want string // "goes on", wherever a run is; "changed": a run that was beyond it waits
	main code
	kid  code // nil: as it was
}

func kidCode(s *shop) []part {
	return []part{s.step("k", "K"), nap("rest"), s.step("l", "L"), nap("end")}
}

// TestChangedSequence changes code that does one step after the other, at every point of its run.
func TestChangedSequence(t *testing.T) {
	before := func(s *shop) []part {
		return []part{s.step("a", "A"), nap("nap"), s.step("b", "B"), s.step("c", "C"), nap("end")}
	}
	for _, c := range []change{
		{name: "nothing", want: "goes on", main: before},
		{name: "rename the first step", want: "changed", main: func(s *shop) []part {
			return []part{s.step("x", "A"), nap("nap"), s.step("b", "B"), s.step("c", "C"), nap("end")}
		}},
		{name: "rename the last step", want: "changed", main: func(s *shop) []part {
			return []part{s.step("a", "A"), nap("nap"), s.step("b", "B"), s.step("x", "C"), nap("end")}
		}},
		{name: "reorder two steps", want: "changed", main: func(s *shop) []part {
			return []part{s.step("a", "A"), nap("nap"), s.step("c", "C"), s.step("b", "B"), nap("end")}
		}},
		{name: "remove the first step", want: "changed", main: func(s *shop) []part {
			return []part{nap("nap"), s.step("b", "B"), s.step("c", "C"), nap("end")}
		}},
		{name: "remove the last step", want: "changed", main: func(s *shop) []part {
			return []part{s.step("a", "A"), nap("nap"), s.step("b", "B"), s.step("c", "C")}
		}},
		{name: "add a step at the front", want: "changed", main: func(s *shop) []part {
			return append([]part{s.step("x", "X")}, before(s)...)
		}},
		{name: "add a step in the middle", want: "changed", main: func(s *shop) []part {
			return []part{
				s.step("a", "A"), nap("nap"), s.step("b", "B"), s.step("x", "X"), s.step("c", "C"), nap("end"),
			}
		}},
		{name: "add a step at the end", want: "goes on", main: func(s *shop) []part {
			return []part{
				s.step("a", "A"), nap("nap"), s.step("b", "B"), s.step("c", "C"), nap("end"), s.step("x", "X"),
			}
		}},
		{name: "make branches of two steps", want: "changed", main: func(s *shop) []part {
			return []part{s.step("a", "A"), nap("nap"), branches("b c", s.step("b", "B"), s.step("c", "C")), nap("end")}
		}},
		{name: "make a branch of all", want: "changed", main: func(s *shop) []part {
			return []part{branches("x", inOrder(before(s)...))}
		}},
		{name: "make a branch of the first step", want: "changed", main: func(s *shop) []part {
			return []part{branches("a", s.step("a", "A")), nap("nap"), s.step("b", "B"), s.step("c", "C"), nap("end")}
		}},
		{name: "make a Map of two steps", want: "changed", main: func(s *shop) []part {
			return []part{
				s.step("a", "A"), nap("nap"), each("bc", 0, "B C", func(item string) part { return s.step("b", item) }),
				nap("end"),
			}
		}},
		{name: "another type of a result", want: "changed", main: func(s *shop) []part {
			number := func(ctx pawl.Context) error {
				_, err := pawl.Step(ctx, "c", func(context.Context) (int, error) {
					_, err := s.take("C")
					return 3, err
				})
				return err
			}
			return []part{s.step("a", "A"), nap("nap"), s.step("b", "B"), number, nap("end")}
		}},
		{name: "make a child of a step", want: "changed", main: func(s *shop) []part {
			return []part{s.step("a", "A"), nap("nap"), s.kid("b"), s.step("c", "C"), nap("end")}
		}},
		{name: "make a sleep of a step", want: "changed", main: func(s *shop) []part {
			return []part{s.step("a", "A"), nap("nap"), s.step("b", "B"), nap("c"), nap("end")}
		}},
	} {
		t.Run(c.name, func(t *testing.T) { c.meets(t, before) })
	}
}

// TestChangedBranches changes code with branches, a Map and a child run, at every point of its run.
func TestChangedBranches(t *testing.T) {
	type list = []part
	charge := func(s *shop) func(item string) part {
		return func(item string) part {
			return inOrder(s.step("charge", item), nap("nap"), s.step("ship", "ship "+item))
		}
	}
	mail := func(s *shop) part { return inOrder(s.step("mail", "M"), nap("nap"), s.step("again", "N")) }
	bill := func(s *shop) part { return inOrder(s.step("bill", "B"), nap("nap")) }
	items := func(s *shop) part { return each("items", 2, "P Q R", charge(s)) }
	both := func(s *shop) part { return branches("mail bill", mail(s), bill(s)) }
	before := func(s *shop) []part { return list{items(s), both(s), s.kid("kid"), s.step("last", "Z")} }
	for i, c := range []change{
		{name: "nothing", want: "goes on", main: before},
		{name: "rename the Map", want: "changed", main: func(s *shop) []part {
			return list{each("goods", 2, "P Q R", charge(s)), both(s), s.kid("kid"), s.step("last", "Z")}
		}},
		{name: "rename a branch", want: "changed", main: func(s *shop) []part {
			return list{items(s), branches("letter bill", mail(s), bill(s)), s.kid("kid"), s.step("last", "Z")}
		}},
		{name: "reorder branches", want: "changed", main: func(s *shop) []part {
			return list{items(s), branches("bill mail", bill(s), mail(s)), s.kid("kid"), s.step("last", "Z")}
		}},
		{name: "remove a branch", want: "changed", main: func(s *shop) []part {
			return list{items(s), branches("mail", mail(s)), s.kid("kid"), s.step("last", "Z")}
		}},
		{name: "remove the Map", want: "changed", main: func(s *shop) []part {
			return list{both(s), s.kid("kid"), s.step("last", "Z")}
		}},
		{name: "add a branch beside others", want: "changed", main: func(s *shop) []part {
			return list{
				items(s), branches("mail bill x", mail(s), bill(s), s.step("x", "X")), s.kid("kid"),
				s.step("last", "Z"),
			}
		}},
		{name: "add a branch at the end", want: "goes on", main: func(s *shop) []part {
			return append(before(s), branches("x", s.step("x", "X")))
		}},
		{name: "more items", want: "changed", main: func(s *shop) []part {
			return list{each("items", 2, "P Q R S", charge(s)), both(s), s.kid("kid"), s.step("last", "Z")}
		}},
		{name: "fewer items", want: "changed", main: func(s *shop) []part {
			return list{each("items", 2, "P Q", charge(s)), both(s), s.kid("kid"), s.step("last", "Z")}
		}},
		{name: "fewer items at once", want: "goes on", main: func(s *shop) []part {
			return list{each("items", 1, "P Q R", charge(s)), both(s), s.kid("kid"), s.step("last", "Z")}
		}},
		{name: "more items at once", want: "goes on", main: func(s *shop) []part {
			return list{each("items", 0, "P Q R", charge(s)), both(s), s.kid("kid"), s.step("last", "Z")}
		}},
		{name: "rename a step of the Map", want: "changed", main: func(s *shop) []part {
			pay := func(item string) part {
				return inOrder(s.step("pay", item), nap("nap"), s.step("ship", "ship "+item))
			}
			return list{each("items", 2, "P Q R", pay), both(s), s.kid("kid"), s.step("last", "Z")}
		}},
		{name: "make a sequence of the Map", want: "changed", main: func(s *shop) []part {
			return list{charge(s)("P"), charge(s)("Q"), charge(s)("R"), both(s), s.kid("kid"), s.step("last", "Z")}
		}},
		{name: "make a sequence of the branches", want: "changed", main: func(s *shop) []part {
			return list{items(s), mail(s), bill(s), s.kid("kid"), s.step("last", "Z")}
		}},
		{name: "make branches of the Map", want: "changed", main: func(s *shop) []part {
			return list{
				branches("p q r", charge(s)("P"), charge(s)("Q"), charge(s)("R")), both(s), s.kid("kid"),
				s.step("last", "Z"),
			}
		}},
		{name: "another type of a branch's result", want: "goes on", main: func(s *shop) []part {
			texts := func(ctx pawl.Context) error {
				do := func(ctx pawl.Context, item string) (string, error) { return item, charge(s)(item)(ctx) }
				_, err := pawl.Map(ctx, "items", 2, []string{"P", "Q", "R"}, do)
				return err
			}
			return list{texts, both(s), s.kid("kid"), s.step("last", "Z")}
		}},
		{name: "move a branch into a branch", want: "changed", main: func(s *shop) []part {
			return list{items(s), branches("x", both(s)), s.kid("kid"), s.step("last", "Z")}
		}},
		{name: "rename the child", want: "changed", main: func(s *shop) []part {
			return list{items(s), both(s), s.kid("x"), s.step("last", "Z")}
		}},
		{name: "a child of another workflow", want: "changed", main: func(s *shop) []part {
			s.child.Store(s.other)
			return list{items(s), both(s), s.kid("kid"), s.step("last", "Z")}
		}},
		{name: "make a step of the child", want: "changed", main: func(s *shop) []part {
			return list{items(s), both(s), s.step("kid", "K"), s.step("last", "Z")}
		}},
		{name: "the child's own code", want: "changed", main: before, kid: func(s *shop) []part {
			return list{s.step("k", "K"), nap("rest"), branches("l", s.step("l", "L")), nap("end")}
		}},
	} {
		if i%nightly.Few(4, 1) != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.meets(t, before) })
	}
}

// meets lets a change of the code meet a run after each of its commits.
func (c *change) meets(t *testing.T, before code) {
	changed, last := 0, false
	for commits := 1; !last; commits++ {
		m := &meeting{change: c, before: before, commits: commits}
		pawltest.RunWith(t, m.config(), m.test)
		if m.stopped {
			changed++
		}
		if t.Failed() {
			t.Fatalf("after %d commits", commits)
		}
		last = m.over
	}
	if is := changed > 0; is != (c.want == "changed") {
		t.Errorf("the run could not go on at %d points, want: %s", changed, c.want)
	}
}

// meeting is one run whose code changes after some of its commits.
type meeting struct {
	*change
	shop    shop
	before  code
	commits int // number of commits before the process dies

	entries []core.Entry
	dies    chan struct{}
	hit     bool // the process is to die
	over    bool // the run has ended before
	after   bool // the code has changed
	stopped bool // the run, or its child, could not go on
}

// config returns the configuration of an engine with the old code, on a journal that takes so many commits.
func (m *meeting) config() pawl.Config {
	j := memory.New()
	j.Fault = func(op memory.Op, b *journal.Batch) error {
		if op != memory.OpAppend || m.after {
			return nil
		}
		if len(b.Encoded) == 0 {
			return nil
		}
		if m.commits == 0 {
			if !m.hit {
				close(m.dies)
			}
			m.hit = true
			return journal.ErrFull
		}
		m.commits--
		entries, err := core.ReadEntries(b.Encoded)
		m.entries = append(m.entries, entries...)
		return err
	}
	m.shop.taken = map[string]int{}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	return pawl.Config{Journal: j, Workflows: m.shop.define(m.before, kidCode), Log: log}
}

func (m *meeting) test(t *testing.T, e *pawltest.Env) {
	m.dies = make(chan struct{})
	started := make(chan error, 1)
	go func() {
		_, err := e.StartRun(context.WithoutCancel(t.Context()), client.StartRequest{Workflow: "main", ID: "main"})
		started <- err
	}()
	must(t, <-started)
	select {
	case <-m.dies:
	case <-time.After(10 * time.Hour):
		m.over = true
	}
	_ = e.Close() // everything not saved by now is lost
	m.after = true
	done := m.done()
	kid := m.kid
	if kid == nil {
		kid = kidCode
	}
	m.shop.taken = map[string]int{}
	now := m.shop.define(m.main, kid)
	e.Crash(now...)
	e.Skip(12 * time.Hour)
	m.replays(t, e, now)
	m.repeats(t, done)
	if m.stopped {
		e.Restart(m.shop.define(m.before, kidCode)...)
		e.Skip(12 * time.Hour)
		m.repeats(t, done)
	}
	e.WantPhase("main", "succeeded")
}

// done returns the items of the steps that have succeeded.
func (m *meeting) done() map[string]bool {
	done := map[string]bool{}
	for _, e := range m.entries {
		for _, rec := range e.Records {
			end, ok := rec.(core.StepEnded)
			var item string
			if ok && end.Phase == core.StepSucceeded && json.Unmarshal(end.Output, &item) == nil {
				done[item] = true
			}
		}
	}
	return done
}

// repeats checks that nothing was done again.
func (m *meeting) repeats(t *testing.T, done map[string]bool) {
	t.Helper()
	for item, n := range m.shop.taken {
		if done[item] || n > 1 {
			t.Errorf("%s is taken again", item)
		}
	}
}

// replays checks that Replay says of the code what the engine does.
func (m *meeting) replays(t *testing.T, e *pawltest.Env, defs []pawl.Definition) {
	t.Helper()
	runs, ended := map[core.RunID][]core.Entry{}, map[core.RunID]bool{}
	for _, entry := range m.entries {
		runs[entry.Run] = append(runs[entry.Run], entry)
		ended[entry.Run] = entry.Ended(ended[entry.Run])
	}
	for run, entries := range runs {
		problem := e.Problem(run.String())
		if ended[run] {
			continue
		}
		d, err := e.DescribeRun(t.Context(), run.String())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range defs {
			if w.Name() != d.Workflow {
				continue
			}
			file, err := history.Write(&core.Definition{}, entries)
			if err != nil {
				t.Fatal(err)
			}
			said := pawl.Replay(t.Context(), pawl.Config{}, w, file)
			goesOn := problem == nil && said == nil
			if !goesOn && (!stopped(problem) || !stopped(said)) {
				t.Errorf("the engine says: %v\nReplay says: %v", problem, said)
			}
			m.stopped = m.stopped || stopped(problem)
		}
	}
}

// stopped reports whether code that has changed is why a run does not go on.
func stopped(err error) bool {
	var changed *pawl.ChangedError
	var unread *pawl.UnreadableError
	return errors.As(err, &changed) || errors.As(err, &unread)
}
