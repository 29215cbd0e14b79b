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
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// programs is how many different bodies exist for all universes together.
const programs = 1024

// program is the body of a workflow, as a tree of actions. A Go function would be code; a tree can be executed by
// body.Host and also walked through by the checker.
type program struct {
	main  []action
	again bool          // the run continues as new while its input is large
	fails bool          // the body ends with an error of its own
	retry *policy.Retry // the retry policy of its runs
	hook  *core.StepSpec
	undo  []action      // detached: its compensation, after the rest has failed or the run was stopped
	limit time.Duration // the limit of the compensation; 0: a minute

	services map[string]*policy.QueueLimits // services that its steps use; nil if there is none
}

// action is one thing that a branch of a program does.
type action struct {
	kind           actionKind
	name           string
	spec           core.StepSpec // the step, for doStep, doBegin and doJoin
	length         time.Duration // the length of a sleep
	onFailure      failureHandling
	then           []action   // the actions of the branch after the step has failed
	parts          [][]action // the actions of its branches
	nameFromResult bool       // the step's name depends on the results that the branch has seen
	detached       bool       // the step goes on when the run or a scope ends; for doStep and doBegin
	cancelsLoser   bool       // the branch that is not the first is cancelled; for doRace
}

// label returns how doVersion changes a label of the run if its name depends on results. It removes some.
func (act *action) label(seen uint32) string {
	switch seen % 3 {
	case 0:
		return act.name + "="
	case 1:
		return "start=body"
	default:
		return act.name + "=" + strconv.Itoa(int(seen%5))
	}
}

type actionKind uint8

const (
	doStep     actionKind = iota // asks for a step and waits for it
	doBegin                      // asks for a step and goes on
	doJoin                       // waits for the step of an earlier doBegin
	doBranches                   // starts parallel branches and waits for all of them
	doRace                       // starts two branches and waits for the first one
	doVersion                    // records the version of the code
	doScope                      // starts a branch in a scope, does its second part, cancels the scope and waits
	doPublish                    // publishes a value
	doUpdate                     // handles an update with the actions of its part
)

// failureHandling is a branch's reaction to a step that did not succeed.
type failureHandling uint8

const (
	failBranch    failureHandling = iota // the branch fails
	handleTimeout                        // a timeout as handleFailure, any other failure as failBranch
	handleFailure                        // it executes action.then and goes on
)

// stepName returns the name of an action's step. The hash is that of the results which the branch has seen.
func (act *action) stepName(seen uint32) string {
	if act.nameFromResult {
		return act.name + "." + strconv.Itoa(int(seen%3))
	}
	return act.name
}

// partName returns the name of the branch of a part, in the original or the changed code.
func (act *action) partName(i int, renamed bool) string {
	if renamed {
		return act.name + renamedPart + strconv.Itoa(i)
	}
	return act.name + "p" + strconv.Itoa(i)
}

// after returns how a branch goes on after its step has closed with that phase; waits: it executes action.then first.
func (act *action) after(phase core.StepPhase) progress {
	switch {
	case phase == core.StepSucceeded, phase == core.StepSkipped: // as in package pawl: a skipped step returns no error
		return goesOn
	case act.onFailure == failBranch || (act.onFailure == handleTimeout && phase != core.StepTimedOut):
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

// programAt returns the workflow of program n.
func programAt(n int) *workflow {
	slot := &programLibrary[n]
	slot.once.Do(func() {
		c := &programGenerator{random: newRandom(uint64(n), 0xb0d1e5), parent: n%3 == 0}
		sum := sha256.Sum256([]byte(programName(n)))
		slot.source = journal.Definition{
			ID: core.DefinitionID(sum[:16]), Kind: journal.KindGo, Name: programName(n),
			Source: []byte(`{"kind":"go"}`),
		}
		slot.program = c.program()
		stops := newStopGenerator(n, c.count)
		stops.amend(slot.program)
		newTalkGenerator(n, stops.count).amend(slot.program)
		useServices(slot.program, n)
		slot.compiled = slot.program.definition()
	})
	return &slot.workflow
}

// programGenerator generates one program.
type programGenerator struct {
	random
	parent bool // it may start child runs
	count  int
}

func (g *programGenerator) program() *program {
	p := &program{main: g.actions(2), again: g.chance(0.15), fails: g.chance(0.1)}
	if g.chance(0.2) {
		p.retry = &policy.Retry{
			MaxAttempts:        2 + g.IntN(2),
			InitialInterval:    g.span(time.Millisecond, 5*time.Minute).Truncate(time.Millisecond),
			BackoffCoefficient: 1.5,
		}
	}
	if g.chance(0.2) {
		p.hook = &core.StepSpec{Name: "hook", Def: -1, Kind: core.KindTask, Hook: true, Type: "a"}
	}
	return p
}

func (g *programGenerator) actions(depth int) []action {
	var out []action
	for range 1 + g.IntN(4) {
		g.count++
		act := action{name: "s" + strconv.Itoa(g.count), nameFromResult: g.chance(0.3)}
		switch x := g.Float64(); {
		case depth > 0 && x < 0.2:
			act.kind, act.parts = doBranches, [][]action{g.actions(depth - 1), g.actions(depth - 1)}
			if g.chance(0.3) {
				act.parts = append(act.parts, g.actions(depth-1))
			}
		case depth > 0 && x < 0.3:
			act.kind, act.parts = doRace, [][]action{g.actions(depth - 1), g.actions(depth - 1)}
		case x < 0.36:
			act.kind = doVersion
		default:
			g.step(&act, depth)
			if act.kind == doBegin && g.chance(0.7) {
				out = append(out, act)
				out = append(out, g.actions(0)...)
				act.kind = doJoin
			}
		}
		out = append(out, act)
	}
	return out
}

func (g *programGenerator) step(act *action, depth int) {
	if act.onFailure = failureHandling(g.IntN(3)); act.onFailure != failBranch && depth > 0 && g.chance(0.6) {
		act.then = g.actions(0)
	}
	if g.chance(0.4) {
		act.kind = doBegin
	}
	s := &act.spec
	s.Def = -1
	switch x := g.Float64(); {
	case x < 0.55:
		s.Kind, s.Type, s.Policy = core.KindTask, body.TypeLocal, g.limited(policy.StepLimits...)
	case x < 0.67:
		s.Kind, s.Type = core.KindTask, pick(g.random, []string{"a", "b", "c"})
		s.Policy = g.limited(policy.StepLimits...)
	case x < 0.78:
		s.Kind, act.length = core.KindSleep, g.span(time.Millisecond, 20*time.Minute).Truncate(time.Millisecond)
	case x < 0.9 || !g.parent:
		s.Kind, s.Event = core.KindWait, pick(g.random, events)
		if g.chance(0.5) {
			s.Policy.Wait = &policy.Limit{After: g.span(time.Second, 30*time.Minute).Truncate(time.Millisecond)}
		}
	default:
		s.Kind, s.Type = core.KindChild, workflowName(g.IntN(workflows/3)*3+1)
		if g.chance(0.5) {
			s.Type = programName(g.IntN(programs/3)*3 + 1)
		}
		s.Policy = g.limited(policy.LimitScheduleToClose, policy.LimitDeadline, policy.LimitStartToClose)
		s.Spread = g.chance(0.5)
		n, closing := g.IntN(8), pick(g.random, []string{"", "terminate", "abandon"})
		s.Input = fmt.Appendf(nil, `{"name":%q,"input":{"n":%d,"list":[1,2]},"close":%q}`, s.Type, n, closing)
	}
}

// limited generates a policy with some of the limits.
func (r random) limited(kinds ...policy.LimitKind) policy.Policy {
	p := policy.Policy{}
	if r.chance(0.6) {
		p.Retry = &policy.Retry{
			MaxAttempts:        1 + r.IntN(6),
			InitialInterval:    r.span(time.Millisecond, time.Minute).Truncate(time.Millisecond),
			BackoffCoefficient: 1 + r.Float64(), Jitter: float64(r.IntN(2)) / 2,
		}
	}
	for _, kind := range kinds {
		if kind == policy.LimitWait || !r.chance(0.25) {
			continue
		}
		after := r.span(100*time.Millisecond, time.Hour).Truncate(time.Millisecond)
		l := &policy.Limit{After: after, Retry: kind.RetriesByDefault()}
		if r.chance(0.3) {
			l.OnExpire = policy.ExpireCancel
		}
		p.Set(kind, l)
	}
	return p
}

var _ core.Decider = (*program)(nil)

// definition returns the program in core's form. It has no steps, because the body decides them.
func (p *program) definition() *core.Definition {
	return &core.Definition{
		NewDecider: func(*core.Run) core.Decider { return p }, HasBody: true,
		HandlesCancel: true, Services: p.services,
		Rules: func([]byte) core.RunRules { return core.RunRules{Retry: p.retry, Compensation: p.limit} },
	}
}

// Decide implements core.Decider. It leaves the decision to the body, except for the hook of a run that did not
// succeed.
func (p *program) Decide(r *core.Run, closed []core.StepID, _ core.Time) []core.Command {
	switch {
	case r.Closing == nil:
		return []core.Command{core.Consult{Closed: closed}}
	case p.hook == nil || r.Closing.Hook > 0:
		return nil
	case r.Closing.Phase == core.RunSucceeded || r.Closing.Phase == core.RunContinued:
		return nil
	default:
		return []core.Command{core.Schedule{Spec: p.hook, Item: -1, Group: core.NoStep}}
	}
}

// Match implements core.Decider. A program's steps have no expressions.
func (p *program) Match(*core.Run, *core.Step, string, *policy.Failure, []byte, core.Time) judge.Match {
	return judge.Match{}
}

func (p *program) Task(_ *core.Run, s *core.Step, _ core.Time) ([]byte, *policy.Failure) {
	return s.Spec.Input, nil
}

// text describes a program for people.
func (p *program) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "again %t, fails %t, retry %+v\n", p.again, p.fails, p.retry)
	writeActions(&b, p.main, 1)
	fmt.Fprintf(&b, "undo within %s\n", p.limit)
	writeActions(&b, p.undo, 1)
	return b.String()
}

func writeActions(b *strings.Builder, actions []action, indent int) {
	for _, act := range actions {
		kind := [...]string{
			"step", "begin", "join", "branches", "race", "version", "scope", "publish", "update",
		}[act.kind]
		fmt.Fprintf(b, "%s%s %s", strings.Repeat("  ", indent), kind, act.name)
		if act.kind <= doJoin {
			spec := act.spec
			fmt.Fprintf(b, " %s %s%s %s onFailure %d", spec.Kind, spec.Type, spec.Event, act.length, act.onFailure)
			if spec.Share != nil {
				fmt.Fprintf(b, " service %s key %q", spec.Share.Service, spec.Share.Key)
			}
		}
		fmt.Fprintf(b, " nameFromResult %t detached %t cancelsLoser %t\n",
			act.nameFromResult, act.detached, act.cancelsLoser)
		writeActions(b, act.then, indent+2)
		for i, part := range act.parts {
			fmt.Fprintf(b, "%s[%d]\n", strings.Repeat("  ", indent+1), i)
			writeActions(b, part, indent+2)
		}
	}
}

// anySpread reports whether an action begins a child run that may live in another partition.
func anySpread(actions []action) bool {
	return slices.ContainsFunc(actions, func(act action) bool {
		return act.spec.Spread || anySpread(act.then) || slices.ContainsFunc(act.parts, anySpread)
	})
}
