package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// branchRunner executes the part of a program that belongs to one branch of a body.
type branchRunner struct {
	*body.Thread
	large   []byte // the last large output that it has seen
	seen    uint32 // a hash of the results that the branch has seen
	begun   map[string]*body.Result
	from    []string // the steps because of which it fails
	renamed bool     // the code has changed: branches have other names
}

// body executes the program as the body of a run.
func (p *program) body(t *body.Thread, renamed bool) {
	pl := &branchRunner{
		Thread: t, begun: map[string]*body.Result{}, renamed: renamed, seen: hashHeaders(t.Head().Headers),
	}
	at := pl.do(p.main)
	if at == fails {
		pl.Thread = t.Detached()
		pl.do(p.undo)
	}
	c := p.close(at, pl.seen, pl.large, t.Head().Input)
	c.From = pl.from
	var err error
	if c.Phase == core.RunFailed {
		err = errFails
	}
	t.Return(nil, body.OutcomeOf(err), c)
}

var errFails = errors.New("the program fails")

// close returns the decision with which the program closes its run.
func (p *program) close(at progress, seen uint32, large, input []byte) core.Close {
	var in struct {
		N int `json:"n"`
	}
	_ = json.Unmarshal(input, &in)
	switch {
	case at == fails || p.fails:
		f := &policy.Failure{Kind: policy.KindFailed, Type: "body", Message: strconv.Itoa(int(seen))}
		return core.Close{Phase: core.RunFailed, Failure: f}
	case p.again && in.N > 4:
		return core.Close{Phase: core.RunContinued, Output: fmt.Appendf(nil, `{"n":%d,"list":[]}`, in.N-1)}
	case large != nil:
		return core.Close{Phase: core.RunSucceeded, Output: bytes.Clone(large)}
	default:
		return core.Close{Phase: core.RunSucceeded, Output: fmt.Appendf(nil, `{"seen":%d}`, seen)}
	}
}

// do executes actions one after the other.
func (r *branchRunner) do(actions []action) progress {
	for i := range actions {
		if at := r.one(&actions[i]); at != goesOn {
			return at
		}
	}
	return goesOn
}

func (r *branchRunner) one(act *action) progress {
	switch act.kind {
	case doBranches:
		return r.branches(act)
	case doRace:
		return r.race(act)
	case doScope:
		return r.scope(act)
	case doPublish:
		return r.publish(act)
	case doUpdate:
		return r.update(act)
	case doVersion:
		must(r.Version(act.name, 1, 2))
		if act.nameFromResult {
			if err := r.Label(act.name, core.Labels(act.label(r.seen))); err != nil {
				panic(err)
			}
		}
		return goesOn
	case doBegin:
		r.begun[act.name] = r.ask(act)
		return goesOn
	case doJoin:
		return r.outcome(act, r.begun[act.name])
	default:
		return r.outcome(act, r.ask(act))
	}
}

// ask asks for a step.
func (r *branchRunner) ask(act *action) *body.Result {
	spec := act.spec
	var fn body.Func
	if spec.Type == body.TypeLocal {
		fn = func(context.Context) ([]byte, error) { return nil, nil } // the simulated workers execute the attempts
	}
	t := r.Thread
	if act.detached {
		t = t.Detached()
	}
	return must(t.Ask(act.stepName(r.seen), core.Schedule{Spec: &spec, For: act.length}, fn))
}

// outcome waits for a step and handles its result.
func (r *branchRunner) outcome(act *action, result *body.Result) progress {
	record := must(r.Get(result))
	r.seen = hashResult(r.seen, record.Phase, record.Output)
	if r.seen%4 == 0 {
		r.Now() // it waits until the end is recorded
	}
	if len(record.Output) >= largeOutput {
		r.large = record.Output
	}
	at := act.after(record.Phase)
	switch at {
	case waits:
		return r.do(act.then)
	case fails:
		if endedBadly(record.Phase) {
			r.from = append(r.from, record.Spec.Name)
		}
	case goesOn:
	}
	return at
}

// largeOutput is from how many bytes on an output that a step and its run have is to be recorded once.
const largeOutput = 1 << 10

// hashResult adds the result of a step to the hash of what a branch has seen.
func hashResult(seen uint32, phase core.StepPhase, output []byte) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%d %s %s", seen, phase, output)
	return h.Sum32()
}

// part is one part of an action, with a branch of its own.
type part struct {
	branchRunner
	at     progress // how the branch has ended
	result *body.Result
}

func (r *branchRunner) begin(in *body.Thread, act *action, i int) *part {
	p := &part{branchRunner: branchRunner{seen: r.seen, begun: map[string]*body.Result{}, renamed: r.renamed}}
	p.result = must(in.Go(act.partName(i, r.renamed), func(t *body.Thread) {
		p.Thread = t
		p.at = p.do(act.parts[i])
		var err error
		if p.at == fails {
			err = errFails
		}
		t.EndBranch(body.OutcomeOf(err))
	}))
	return p
}

func (r *branchRunner) branches(act *action) progress {
	parts := make([]*part, len(act.parts))
	for i := range parts {
		parts[i] = r.begin(r.Thread, act, i)
	}
	all, seen := goesOn, uint32(0)
	for _, p := range parts {
		must(r.Await("all", p.result))
		seen = seen*31 + p.seen
		if p.at == fails {
			all = fails
			r.from = append(r.from, p.from...)
		}
	}
	r.seen = seen
	return all
}

// race waits for the first of two branches.
func (r *branchRunner) race(act *action) progress {
	var parts [2]*part
	var results [2]*body.Result
	for i := range parts {
		parts[i] = r.begin(r.Thread, act, i)
		results[i] = parts[i].result
	}
	first := must(r.Any(results[:]))
	if act.cancelsLoser {
		results[1-first].Cancel()
	}
	r.seen = parts[first].seen + uint32(first)
	return goesOn
}

// must returns the value of a call of the body. A branch that still computes after the body has returned gets an error
// from its next call. It ends then.
func must[T any](v T, err error) T {
	switch {
	case errors.Is(err, body.ErrContextEnded):
		panic(coroutineEnded{})
	case err != nil:
		panic(err)
	}
	return v
}
