package body

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// TestSession plays the conversations in testdata/session: what a session is told, and what it wants done.
//
//	news whole|closed          what the engine tells of the run, a step a line: "3 pay step succeeded at=7s". The run
//	                           may be asked to stop, from a step on: stop=cancelled from=3. The body has published
//	                           one value since it came to a step: published=pay
//	ask BRANCH KEY [KIND]      the branch asks for a step, in a scope: in=SCOPE
//	scope BRANCH SCOPE         the branch makes a scope; the scope "detached" is there
//	cancel SCOPE, KEY          a scope, or a step, is cancelled
//	saw BRANCH KEY|BRANCH      the branch has seen how a step or a branch ended
//	publish BRANCH VALUE       the branch publishes a value
//	offer NAME ID              an update comes
//	take BRANCH KEY            the branch waits until its wait is offered an update, or has taken one
//	accept BRANCH KEY, refuse  the branch accepts the update, or refuses it
//	leave KEY                  a branch leaves its wait, which has ended
//	answer BRANCH KEY VALUE    the branch answers the update that its wait has taken
//	wait BRANCH KEY|BRANCH...  the branch waits for the first of these
//	now BRANCH KEY             the branch waits for the instant at which the step ended
//	mark BRANCH KEY VALUE      the branch records a decision
//	version BRANCH KEY OLD NEW
//	spawn BRANCH NAME          the branch begins another one
//	end BRANCH, return BRANCH  the branch, or the body, has returned
//	ended ID                   an attempt of the step has succeeded, which is not recorded yet
//	want KEY ID, over          an attempt looks for its function; it is over
//	left BRANCH                the goroutine of a branch that had to leave has ended
//	held                       no news come for now: the run is paused or closing
//	discard                    the run has closed
//	answered [ERROR]           the engine has answered a commit
//	fired TIMER                a timer has fired
//	foreign                    from now on, branches are used by goroutines of others
//	unknown                    from now on, the workflow is not registered
func TestSession(t *testing.T) {
	datadriven.Walk(t, "testdata/session", func(t *testing.T, path string) {
		p := &player{
			t: t, s: NewSession(core.RunID{1}, 0), branches: map[string]*Branch{},
			scopes: map[string]*Scope{"detached": aside},
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			p.out.Reset()
			p.at = d.Pos
			p.play(d)
			p.carryOut()
			if p.out.Len() == 0 {
				return "nothing\n"
			}
			return p.out.String()
		})
	})
}

// player is the shell of a session in a conversation.
type player struct {
	t        *testing.T
	s        *Session
	branches map[string]*Branch
	scopes   map[string]*Scope
	unknown  bool
	foreign  bool
	at       string // the place in the conversation
	out      strings.Builder
}

func (p *player) say(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }

func (p *player) play(d *datadriven.TestData) {
	arg := func(i int) string {
		if i < len(d.CmdArgs) {
			return d.CmdArgs[i].Key
		}
		return ""
	}
	var failed error
	if d.HasArg("error") {
		var text string
		d.ScanArgs(p.t, "error", &text)
		failed = errors.New(text)
	}
	switch d.Cmd {
	case "unknown":
		p.unknown = true
	case "foreign":
		p.foreign = true
	case "news":
		p.news(arg(0) == "whole", d)
	case "ask":
		in := ""
		d.MaybeScanArgs(p.t, "in", &in)
		p.ask(p.branch(arg(0)), p.scopes[in], arg(1), arg(2))
	case "wait":
		p.wait(arg(0), d.CmdArgs[1:])
	case "now":
		st, b := p.s.steps[arg(1)], p.branch(arg(0))
		p.s.expect(b)
		p.s.Wait(b, Named("now"), func() bool { return st.confirmed }, &st.changed)
	case "mark":
		p.s.Mark(arg(1), []byte(arg(2)), core.Causes{})
	case "version":
		p.say("version %d", p.s.version(p.branch(arg(0)), arg(1), number(arg(2)), number(arg(3))))
	case "spawn":
		b := p.s.BeginBranch(p.branch(arg(0)), p.branch(arg(0)).Key(arg(1)))
		if p.branches[arg(1)] = b; b == nil {
			p.say("it has to leave")
		}
	case "end":
		p.s.EndBranch(p.branch(arg(0)), OutcomeOf(failed))
	case "return":
		c := core.Close{Phase: core.RunSucceeded}
		if failed != nil {
			c.Phase = core.RunFailed
		}
		p.s.Return(p.branch(arg(0)), OutcomeOf(failed), c)
	case "ended":
		if !p.s.Ended(core.TaskEnded{Step: core.StepID(number(arg(0))), Attempt: 1, Output: []byte(`"done"`)}) {
			p.say("the engine is to be told")
		}
	case "want":
		fn, waits := p.s.Want(arg(0), core.StepID(number(arg(1))))
		p.say("the function is there: %t, it is waited for: %t", fn != nil, waits)
	case "held":
		p.s.News(engine.News{Run: p.s.run, Held: true})
	case "over":
		p.s.AttemptOver()
	case "answered":
		p.s.Answered(failed)
	case "fired":
		p.s.Fired(Timer(slices.Index([]string{"task", "flush", "idle", "retry"}, arg(0))))
	case "discard":
		p.s.Discard()
	case "left":
		left(p.s, p.branches[arg(0)])
	default:
		p.playMore(d.Cmd, arg)
	}
}

// playMore plays what is about scopes, updates and values.
func (p *player) playMore(cmd string, arg func(int) string) {
	switch cmd {
	case "scope":
		p.scopes[arg(1)] = p.s.NewScope(p.branch(arg(0)), nil)
	case "cancel":
		if sc := p.scopes[arg(0)]; sc != nil {
			p.s.CancelScope(sc)
		} else {
			p.s.CancelStep(p.step(arg(0)))
		}
		p.s.settle()
	case "saw":
		r := &Result{branch: p.branches[arg(1)]}
		if r.branch == nil {
			r.step = p.step(arg(1))
		}
		p.branch(arg(0)).saw(r)
	case "publish":
		p.s.publish(p.branch(arg(0)), []byte(arg(1)))
	case "offer":
		p.s.Offer(&Update{Name: arg(0), ID: arg(1)})
	case "take":
		p.take(p.branch(arg(0)), p.step(arg(1)))
	case "accept":
		st := p.step(arg(1))
		p.s.accept(st)
		p.s.Wait(p.branch(arg(0)), Named("take"), func() bool { return st.closed }, &st.changed)
	case "refuse":
		st := p.step(arg(1))
		p.s.refuse(st, &policy.Failure{Message: "it does not fit"})
		p.take(p.branch(arg(0)), st)
	case "answer":
		if !p.s.answer(p.branch(arg(0)), p.step(arg(1)), []byte(arg(2)), nil) {
			p.say("it has to leave")
		}
	case "leave":
		p.s.leaveWait(p.step(arg(0)))
	default:
		p.t.Fatalf("unknown command %q", cmd)
	}
}

func (p *player) step(key string) *Step {
	st := p.s.steps[key]
	if st == nil {
		p.t.Fatalf("there is no step %q", key)
	}
	return st
}

// take waits for an update as TakeUpdate does.
func (p *player) take(b *Branch, st *Step) {
	if !slices.Contains(p.s.takers, st) {
		p.s.takers = append(p.s.takers, st)
	}
	if !p.s.Wait(b, Named("take"), func() bool { return st.closed || st.offer != nil }, &st.changed) {
		p.say("%s is not waited for", st.key)
	}
}

func (p *player) branch(name string) *Branch {
	b := p.branches[name]
	switch {
	case b == nil:
		p.t.Fatalf("there is no branch %q", name)
	case p.s.turn != b && !p.s.over() && !p.foreign:
		p.t.Fatalf("%s: branch %q has not the turn", p.at, name)
	}
	return b
}

// news reads steps: "ID KEY KIND PHASE [at=INSTANT] [kept] [restarted]".
func (p *player) news(whole bool, d *datadriven.TestData) {
	n := engine.News{Run: p.s.run, Whole: whole}
	if whole {
		n.Head = &engine.Head{Workflow: "shop", Stop: p.stop(d), Points: map[string]core.Point{}}
		if d.HasArg("published") {
			var after string
			d.ScanArgs(p.t, "published", &after)
			n.Head.Points[""] = core.Point{After: after, Count: 1}
		}
	}
	for line := range strings.Lines(d.Input) {
		f := strings.Fields(line)
		st := engine.Step{ID: core.StepID(number(f[0])), Spec: specOf(f[1], f[2])}
		if err := st.Phase.UnmarshalText([]byte(f[3])); err != nil {
			p.t.Fatal(err)
		}
		for _, more := range f[4:] {
			switch key, value, _ := strings.Cut(more, "="); key {
			case "at":
				d, err := time.ParseDuration(value)
				if err != nil {
					p.t.Fatal(err)
				}
				st.EndedAt = core.Time(0).Add(d)
			case "rank":
				st.Rank = uint32(number(value))
				n.Head.Ends = max(n.Head.Ends, st.Rank)
			case "output":
				st.Output = []byte(value)
			case "update":
				st.UpdateID = value
			case "kept":
				st.Kept = true
			case "restarted":
				st.Restarted = true
			}
		}
		n.Steps = append(n.Steps, st)
	}
	p.s.News(n)
}

// stop reads how the run is asked to stop; nil: it is not.
func (p *player) stop(d *datadriven.TestData) *core.Stop {
	if !d.HasArg("stop") {
		return nil
	}
	var phase string
	var from, ends int
	d.ScanArgs(p.t, "stop", &phase)
	d.ScanArgs(p.t, "from", &from)
	d.MaybeScanArgs(p.t, "ends", &ends)
	failure := &policy.Failure{Message: "an operator has stopped it"}
	s := &core.Stop{From: core.StepID(from), Ends: uint32(ends), Failure: failure}
	if err := s.Phase.UnmarshalText([]byte(phase)); err != nil {
		p.t.Fatal(err)
	}
	return s
}

func specOf(key, kind string) *core.StepSpec {
	spec := &core.StepSpec{Name: key, Def: -1}
	switch kind {
	case "sleep":
		spec.Kind = core.KindSleep
	case "event":
		spec.Kind, spec.Event = core.KindWait, key
	case "update":
		spec.Kind, spec.Update = core.KindWait, strings.TrimRight(key, "#0123456789")
	case "answer":
		spec.Type = TypeAnswer
	case "mark":
		spec.Type = TypeMark
	case "branch":
		spec.Type = TypeBranch
	case "call":
		spec.Kind, spec.Type = core.KindTask, HandlerType(key)
	default:
		spec.Kind, spec.Type = core.KindTask, TypeLocal
	}
	return spec
}

func (p *player) ask(b *Branch, in *Scope, name, kind string) {
	spec := specOf(b.Key(name), kind)
	var fn Func
	if spec.Type == TypeLocal {
		fn = func(context.Context) ([]byte, error) { return nil, nil }
	}
	switch st := p.s.Ask(b, in, core.Schedule{Spec: spec}, fn); {
	case st == nil:
		p.say("it has to leave")
	case st.closed:
		p.say("%s has ended as %s", st.key, st.record.Phase)
	default:
		p.say("%s is open", st.key)
	}
}

func (p *player) wait(name string, what []datadriven.CmdArg) {
	var until []func() bool
	var on []*Signal
	for _, w := range what {
		r := &Result{branch: p.branches[w.Key]}
		if r.branch == nil {
			r.step = p.s.steps[w.Key]
		}
		if r.step == nil && r.branch == nil {
			p.t.Fatalf("there is no step or branch %q", w.Key)
		}
		until, on = append(until, r.settled), append(on, r.signal())
	}
	waits := p.s.Wait(p.branch(name), Named("wait"), func() bool {
		return slices.ContainsFunc(until, func(f func() bool) bool { return f() })
	}, on...)
	if !waits {
		p.say("%s goes on", name)
	}
}

// carryOut writes what the session wants done, and does what a shell has to do at once.
func (p *player) carryOut() {
	for r := p.s.Ready(); r != nil; r = p.s.Ready() {
		if r.Start {
			p.start()
		}
		for _, id := range r.Begin {
			p.say("attempts of step %d can begin", id)
		}
		for _, st := range r.Found {
			p.say("the function of %s is found", st.key)
		}
		for _, u := range r.Refused {
			p.say("update %s %s is refused: %s", u.Update.Name, u.Update.ID, u.Failure.Message)
		}
		if r.GiveBack {
			p.say("attempts that wait for their functions are given back")
		}
		p.commit("commit", r.Send)
		p.commit("report", r.Report)
		for t, change := range r.Timers {
			switch change.Op {
			case TimerSet:
				p.say("timer %s: in %s", Timer(t), change.After)
			case TimerStop:
				p.say("timer %s: stops", Timer(t))
			case TimerStays:
			}
		}
		for _, b := range r.Wake {
			p.wake(b)
		}
		if r.Returned {
			p.say("the body has returned")
		}
		if r.Stuck != nil {
			p.say("stuck: %v", r.Stuck)
			p.s.RetryAfter(time.Minute)
		}
		if r.Gone {
			p.say("the session is gone")
		}
		if r.CallAgain {
			p.say("the body is called again in %s", r.Pause)
		}
	}
}

func (p *player) start() {
	if p.unknown {
		p.s.Stop(Stuck{Why: Unknown})
		return
	}
	p.branches["body"] = p.s.Start(10 * time.Second)
	p.say("the body is called")
}

func (p *player) wake(b *Branch) {
	for name, other := range p.branches {
		switch {
		case other != b:
		case b.state == branchLeaves:
			p.say("%s leaves", name)
		case b.thread != nil:
			b.busy = Call{}
			p.say("%s goes on", name)
		case name != "body":
			p.say("%s begins", name)
			fallthrough
		default:
			b.thread = &Thread{}
		}
	}
}

func (p *player) commit(what string, inputs []core.Input) {
	if len(inputs) == 0 {
		return
	}
	p.say("%s:", what)
	for _, in := range inputs {
		switch in := in.(type) {
		case core.TaskEnded:
			p.say("  step %d has ended", in.Step)
		case core.Commands:
			for _, cmd := range in.Commands {
				p.say("  %s", commandText(cmd))
			}
			if in.Seen.Told {
				p.say("  the body has seen the ends of %v, the last of them as %d",
					append(in.Seen.More, in.Seen.Last), in.Seen.Ends)
			}
			if in.Stopping {
				p.say("  the body knows that the run stops")
			}
			if in.Waits {
				p.say("  the body waits, and knows of %d ends", in.Closed)
			}
		}
	}
}

func commandText(cmd core.Command) string {
	switch cmd := cmd.(type) {
	case core.Schedule:
		text := "begin " + Describe(cmd.Spec) + causesText(cmd.Causes)
		if cmd.Spec.Detached {
			text += ", detached"
		}
		return text
	case core.CancelStep:
		return "cancel " + cmd.Key
	case core.Publish:
		return fmt.Sprintf("publish %s", cmd.Value)
	case core.AcceptUpdate:
		return fmt.Sprintf("%s takes update %s %s", cmd.Key, cmd.Name, cmd.ID)
	case core.AnswerUpdate:
		return fmt.Sprintf("answer update %s %s: %s", cmd.Name, cmd.ID, cmd.Output)
	case core.Mark:
		if cmd.Spec.Type == TypeBranch {
			return "begin " + Describe(cmd.Spec)
		}
		return fmt.Sprintf("mark %s = %s", cmd.Spec.Name, cmd.Output) + causesText(cmd.Causes)
	case core.Close:
		return fmt.Sprintf("close as %s", cmd.Phase)
	default:
		return fmt.Sprintf("%T", cmd)
	}
}

// causesText says what a decision follows from.
func causesText(c core.Causes) string {
	text := ""
	if len(c.Saw) > 0 {
		text += ", after the failure of " + strings.Join(c.Saw, " and ")
	}
	if len(c.After) > 0 {
		text += ", following from " + strings.Join(c.After, " and ")
	}
	return text
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}
