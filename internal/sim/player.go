package sim

import (
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

// player does what a program says, in one branch of a body.
type player struct {
	*body.Thread
	seen  uint32 // what it saw last
	begun map[string]*body.Result
	from  []string // the steps for which it fails
}

// play is the program as a body.
func (p *program) play(t *body.Thread) {
	pl := &player{Thread: t, begun: map[string]*body.Result{}}
	at := pl.do(p.main)
	c := p.close(at, pl.seen, t.Head().Input)
	c.From = pl.from
	var err error
	if c.Phase == core.RunFailed {
		err = errFails
	}
	t.Return(nil, body.OutcomeOf(err), c)
}

var errFails = errors.New("the program fails")

// close is how the program ends its run.
func (p *program) close(at progress, seen uint32, input []byte) core.Close {
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
	default:
		return core.Close{Phase: core.RunSucceeded, Output: fmt.Appendf(nil, `{"seen":%d}`, seen)}
	}
}

// do does one thing after the other.
func (pl *player) do(deeds []deed) progress {
	for i := range deeds {
		if at := pl.one(&deeds[i]); at != goesOn {
			return at
		}
	}
	return goesOn
}

func (pl *player) one(d *deed) progress {
	switch d.kind {
	case doBranches:
		return pl.branches(d)
	case doRace:
		return pl.race(d)
	case doVersion:
		must(pl.Version(d.name, 1, 2))
		return goesOn
	case doBegin:
		pl.begun[d.name] = pl.ask(d)
		return goesOn
	case doJoin:
		return pl.outcome(d, pl.begun[d.name])
	default:
		return pl.outcome(d, pl.ask(d))
	}
}

// ask asks for a step.
func (pl *player) ask(d *deed) *body.Result {
	spec := d.spec
	var fn body.Func
	if spec.Type == body.TypeLocal {
		fn = func(context.Context) ([]byte, error) { return nil, nil } // the workers play the attempts
	}
	return must(pl.Ask(d.stepName(pl.seen), core.Schedule{Spec: &spec, For: d.length}, fn))
}

// outcome waits for a step and takes in what became of it.
func (pl *player) outcome(d *deed, r *body.Result) progress {
	record := must(pl.Get(r))
	pl.seen = see(pl.seen, record.Phase, record.Output)
	at := d.after(record.Phase)
	switch at {
	case waits:
		return pl.do(d.then)
	case fails:
		pl.from = append(pl.from, record.Spec.Name)
	case goesOn:
	}
	return at
}

// see is what a branch has seen when it has seen another step's end.
func see(seen uint32, phase core.StepPhase, output []byte) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%d %s %s", seen, phase, output)
	return h.Sum32()
}

// part is a part of a deed, in a branch of its own.
type part struct {
	player
	at     progress // once it has ended
	result *body.Result
}

func (pl *player) begin(d *deed, i int) *part {
	p := &part{player: player{seen: pl.seen, begun: map[string]*body.Result{}}}
	p.result = must(pl.Go(d.partName(i), func(t *body.Thread) {
		p.Thread = t
		p.at = p.do(d.parts[i])
		var err error
		if p.at == fails {
			err = errFails
		}
		t.EndBranch(body.OutcomeOf(err))
	}))
	return p
}

func (pl *player) branches(d *deed) progress {
	parts := make([]*part, len(d.parts))
	for i := range parts {
		parts[i] = pl.begin(d, i)
	}
	all, seen := goesOn, uint32(0)
	for _, p := range parts {
		must(pl.Await("all", p.result))
		seen = seen*31 + p.seen
		if p.at == fails {
			all = fails
			pl.from = append(pl.from, p.from...)
		}
	}
	pl.seen = seen
	return all
}

// race waits for the first of two branches.
func (pl *player) race(d *deed) progress {
	var parts [2]*part
	var results [2]*body.Result
	for i := range parts {
		parts[i] = pl.begin(d, i)
		results[i] = parts[i].result
	}
	first := must(pl.Any(results[:]))
	pl.seen = parts[first].seen + uint32(first)
	return goesOn
}

// must returns what a call of the body has returned. A branch that still computes when the body has returned is
// refused, and ends.
func must[T any](v T, err error) T {
	switch {
	case errors.Is(err, body.ErrContextEnded):
		panic(unwound{})
	case err != nil:
		panic(err)
	}
	return v
}
