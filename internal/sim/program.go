package sim

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// programs is how many different bodies there are over all universes.
const programs = 1024

// program is the body of a workflow: what a Go function would do, as a tree that can be walked again and again.
type program struct {
	main  []deed
	again bool          // it continues as new while its input is large
	fails bool          // it ends with an error of its own
	retry *policy.Retry // of its runs
	hook  *core.StepSpec
	undo  []deed        // detached: what it does where the rest has failed, or its run was stopped
	limit time.Duration // for that; 0: a minute
}

// deed is one thing that a branch of a program does.
type deed struct {
	kind   deedKind
	name   string
	spec   core.StepSpec // of doStep
	length time.Duration // of a sleep
	heed   heed
	then   []deed   // what it does about a step that did not succeed
	parts  [][]deed // of branches
	told   bool     // the step's name depends on what the branch saw last

	detached bool // of doStep, doBegin: it goes on when the run or a scope ends
	cancels  bool // of doRace: the branch that is not the first is cancelled
}

type deedKind uint8

const (
	doStep     deedKind = iota // asks for a step and waits for it
	doBegin                    // asks for a step
	doJoin                     // waits for the step that was begun before
	doBranches                 // has branches beside each other and waits for all
	doRace                     // waits for the first of two branches
	doVersion                  // notes the version of the code
	doScope                    // has a branch in a scope, does something else, cancels the scope and waits for the branch
)

// heed is what a branch does about a step that did not succeed.
type heed uint8

const (
	heedAll  heed = iota // its branch fails
	heedLate             // it does something about one that timed out; else its branch fails
	heedNone             // it does something about it and goes on
)

// stepName is the name of a deed's step, for a branch that has seen that.
func (d *deed) stepName(seen uint32) string {
	if d.told {
		return d.name + "." + strconv.Itoa(int(seen%3))
	}
	return d.name
}

// partName is the name of the branch of a deed's part.
func (d *deed) partName(i int) string { return d.name + "p" + strconv.Itoa(i) }

// after is how a branch goes on after a step of that phase; waits: it does something about it first.
func (d *deed) after(phase core.StepPhase) progress {
	switch {
	case phase == core.StepSucceeded:
		return goesOn
	case d.heed == heedAll || (d.heed == heedLate && phase != core.StepTimedOut):
		return fails
	default:
		return waits
	}
}

var programLibrary [programs]struct {
	once sync.Once
	workflow
}

func programName(n int) string { return "b" + strconv.Itoa(n) }

// programAt makes the body's workflow of a number.
func programAt(n int) *workflow {
	slot := &programLibrary[n]
	slot.once.Do(func() {
		c := &composer{random: newRandom(uint64(n), 0xb0d1e5), parent: n%3 == 0}
		sum := sha256.Sum256([]byte(programName(n)))
		slot.source = journal.Definition{
			ID: core.DefinitionID(sum[:16]), Kind: journal.KindGo, Name: programName(n), Source: []byte(`{"kind":"go"}`),
		}
		slot.program = c.program()
		newStopper(n, c.count).amend(slot.program)
		slot.compiled = slot.program.definition()
	})
	return &slot.workflow
}

// composer makes one program.
type composer struct {
	random
	parent bool // it may start child runs
	count  int
}

func (c *composer) program() *program {
	p := &program{main: c.deeds(2), again: c.chance(0.15), fails: c.chance(0.1)}
	if c.chance(0.2) {
		p.retry = &policy.Retry{MaxAttempts: 2 + c.IntN(2), InitialInterval: c.span(time.Millisecond, 5*time.Minute).Truncate(time.Millisecond), BackoffCoefficient: 1.5}
	}
	if c.chance(0.2) {
		p.hook = &core.StepSpec{Name: "hook", Def: -1, Kind: core.KindTask, Hook: true, Type: "a"}
	}
	return p
}

func (c *composer) deeds(depth int) []deed {
	var out []deed
	for range 1 + c.IntN(4) {
		c.count++
		d := deed{name: "s" + strconv.Itoa(c.count), told: c.chance(0.3)}
		switch x := c.Float64(); {
		case depth > 0 && x < 0.2:
			d.kind, d.parts = doBranches, [][]deed{c.deeds(depth - 1), c.deeds(depth - 1)}
			if c.chance(0.3) {
				d.parts = append(d.parts, c.deeds(depth-1))
			}
		case depth > 0 && x < 0.3:
			d.kind, d.parts = doRace, [][]deed{c.deeds(depth - 1), c.deeds(depth - 1)}
		case x < 0.36:
			d.kind = doVersion
		default:
			c.step(&d, depth)
			if d.kind == doBegin && c.chance(0.7) {
				out = append(out, d)
				out = append(out, c.deeds(0)...)
				d.kind = doJoin
			}
		}
		out = append(out, d)
	}
	return out
}

func (c *composer) step(d *deed, depth int) {
	if d.heed = heed(c.IntN(3)); d.heed != heedAll && depth > 0 && c.chance(0.6) {
		d.then = c.deeds(0)
	}
	if c.chance(0.4) {
		d.kind = doBegin
	}
	s := &d.spec
	s.Def = -1
	switch x := c.Float64(); {
	case x < 0.55:
		s.Kind, s.Type, s.Policy = core.KindTask, body.TypeLocal, c.limited(policy.StepLimits...)
	case x < 0.67:
		s.Kind, s.Type, s.Policy = core.KindTask, pick(c.random, []string{"a", "b", "c"}), c.limited(policy.StepLimits...)
	case x < 0.78:
		s.Kind, d.length = core.KindSleep, c.span(time.Millisecond, 20*time.Minute).Truncate(time.Millisecond)
	case x < 0.9 || !c.parent:
		s.Kind, s.Event = core.KindWait, pick(c.random, events)
		if c.chance(0.5) {
			s.Policy.Wait = &policy.Limit{After: c.span(time.Second, 30*time.Minute).Truncate(time.Millisecond)}
		}
	default:
		s.Kind, s.Type = core.KindChild, workflowName(c.IntN(workflows/3)*3+1)
		if c.chance(0.5) {
			s.Type = programName(c.IntN(programs/3)*3 + 1)
		}
		s.Policy = c.limited(policy.LimitScheduleToClose, policy.LimitDeadline, policy.LimitStartToClose)
		s.Spread = c.chance(0.5)
		s.Input = fmt.Appendf(nil, `{"name":%q,"input":{"n":%d,"list":[1,2]},"close":%q}`, s.Type, c.IntN(8), pick(c.random, []string{"", "terminate", "abandon"}))
	}
}

// limited draws a policy with some of the limits.
func (r random) limited(kinds ...policy.LimitKind) policy.Policy {
	p := policy.Policy{}
	if r.chance(0.6) {
		p.Retry = &policy.Retry{
			MaxAttempts: 1 + r.IntN(6), InitialInterval: r.span(time.Millisecond, time.Minute).Truncate(time.Millisecond),
			BackoffCoefficient: 1 + r.Float64(), Jitter: float64(r.IntN(2)) / 2,
		}
	}
	for _, kind := range kinds {
		if kind == policy.LimitWait || !r.chance(0.25) {
			continue
		}
		l := &policy.Limit{After: r.span(100*time.Millisecond, time.Hour).Truncate(time.Millisecond), Retry: kind.RetriesByDefault()}
		if r.chance(0.3) {
			l.OnExpire = policy.ExpireCancel
		}
		p.Set(kind, l)
	}
	return p
}

var _ core.Decider = (*program)(nil)

// definition is the program as the machine sees it: without steps of its own, for its body decides them.
func (p *program) definition() *core.Definition {
	return &core.Definition{
		NewDecider: func(*core.Run) core.Decider { return p }, HasBody: true,
		HandlesCancel: true,
		Rules:         func() core.RunRules { return core.RunRules{Retry: p.retry, Compensation: p.limit} },
	}
}

// Decide implements core.Decider: the body does, but for the hook of a run that did not succeed.
func (p *program) Decide(r *core.Run, closed []core.StepID, _ core.Time) []core.Command {
	switch {
	case r.Closing == nil:
		return []core.Command{core.Consult{Closed: closed}}
	case p.hook == nil || r.Closing.Hook > 0 || r.Closing.Phase == core.RunSucceeded || r.Closing.Phase == core.RunContinued:
		return nil
	default:
		return []core.Command{core.Schedule{Spec: p.hook, Item: -1, Group: core.NoStep}}
	}
}

// Match implements core.Decider; a program's steps have no expressions.
func (p *program) Match(*core.Run, *core.Step, string, *policy.Failure, core.Time) policy.Match {
	return policy.Match{}
}

// Task implements core.Decider.
func (p *program) Task(_ *core.Run, s *core.Step, _ core.Time) ([]byte, *policy.Failure) {
	return s.Spec.Input, nil
}

// text writes a program for people.
func (p *program) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "again %t, fails %t, retry %+v\n", p.again, p.fails, p.retry)
	writeDeeds(&b, p.main, 1)
	fmt.Fprintf(&b, "undo within %s\n", p.limit)
	writeDeeds(&b, p.undo, 1)
	return b.String()
}

func writeDeeds(b *strings.Builder, deeds []deed, indent int) {
	for _, d := range deeds {
		kind := [...]string{"step", "begin", "join", "branches", "race", "version", "scope"}[d.kind]
		fmt.Fprintf(b, "%s%s %s", strings.Repeat("  ", indent), kind, d.name)
		if d.kind <= doJoin {
			fmt.Fprintf(b, " %s %s%s %s heed %d", d.spec.Kind, d.spec.Type, d.spec.Event, d.length, d.heed)
		}
		fmt.Fprintf(b, " told %t detached %t cancels %t\n", d.told, d.detached, d.cancels)
		writeDeeds(b, d.then, indent+2)
		for i, part := range d.parts {
			fmt.Fprintf(b, "%s[%d]\n", strings.Repeat("  ", indent+1), i)
			writeDeeds(b, part, indent+2)
		}
	}
}

// anySpread reports whether a deed begins a child run that may live in another partition.
func anySpread(deeds []deed) bool {
	return slices.ContainsFunc(deeds, func(d deed) bool {
		return d.spec.Spread || anySpread(d.then) || slices.ContainsFunc(d.parts, anySpread)
	})
}
