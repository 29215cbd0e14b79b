package engine

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// start makes a run, or finds the one that the request's key, id or workflow id stands for.
func (p *Partition) start(c *Call) {
	c.Started, c.Err = p.startRun(&c.Start, c.workflow)
	p.reply(c)
}

func (p *Partition) startRun(req *StartRequest, w *workflow) (Started, error) {
	if found, err := p.existing(req); err != nil || found.Existing {
		return found, err
	}
	if w == nil {
		var err error
		if w, err = p.defs.use(p.ctx, &req.Definition); err != nil {
			return Started{}, invalid("start", req.Definition.Name, "the definition cannot be used: %w", err)
		}
	}
	id := req.RunID
	if id == (core.RunID{}) {
		id = p.newID()
	}
	p.pipeline.define(&req.Definition)
	r := p.residents.create(id, w.kind)
	err := p.advance(r, w.def, core.Start{
		Definition: req.Definition.ID, Workflow: req.Definition.Name, WorkflowID: req.WorkflowID, Key: req.Key,
		Input: req.Input, At: req.At, Execution: req.Execution, Run: req.Run, ExecutionAt: req.ExecutionAt, RunAt: req.RunAt,
		Keep: req.Keep, Notify: req.Notify, Actor: req.Actor, Reason: req.Reason,
	})
	if err != nil {
		delete(p.residents.runs, id)
		return Started{}, refused("start", id, err)
	}
	p.residents.name(r)
	return Started{Run: id}, nil
}

// existing looks for the run that a start means. There is no look-up for a run that its caller gave no name.
func (p *Partition) existing(req *StartRequest) (Started, error) {
	if req.RunID != (core.RunID{}) {
		if _, err := p.get(req.RunID); err == nil {
			return Started{Run: req.RunID, Existing: true}, nil
		} else if !errors.Is(err, journal.ErrNotFound) {
			return Started{}, failure("start", req.RunID.String(), err)
		}
	}
	if req.Key != "" {
		id, ok := p.residents.byKey[req.Key]
		if !ok {
			var err error
			if id, ok, err = p.lookup(journal.Lookup{Key: req.Key}); err != nil {
				return Started{}, failure("start", req.Key, err)
			}
		}
		if ok {
			return Started{Run: id, Existing: true}, nil
		}
	}
	if req.WorkflowID == "" {
		return Started{}, nil
	}
	id, ok, err := p.openRun(req.WorkflowID)
	switch {
	case err != nil:
		return Started{}, failure("start", req.WorkflowID, err)
	case !ok:
		return Started{}, nil
	case req.OnConflict == ConflictUse:
		return Started{Run: id, Existing: true}, nil
	default:
		return Started{}, &Error{
			Code: CodeConflict, Op: "start", ID: req.WorkflowID,
			Err:  fmt.Errorf("the open run %s has this workflow id", id),
			Hint: "wait until it has ended, use the open run, or choose another workflow id",
		}
	}
}

// current returns the run that an id stands for by now: where its chain has gone on, the last one of the chain. The first run
// of a chain lends the chain its id as workflow id where it has none, so that the chain is found when that run is pruned.
func (p *Partition) current(id core.RunID) (*run, error) {
	r, err := p.get(id)
	for err == nil && r.state.Phase.Closed() && r.state.Next != (core.RunID{}) {
		r, err = p.get(r.state.Next)
	}
	if !errors.Is(err, journal.ErrNotFound) {
		return r, err
	}
	open, ok, lookErr := p.openRun(id.String())
	switch {
	case lookErr != nil:
		return nil, lookErr
	case !ok:
		return nil, err
	}
	return p.get(open)
}

// openRun finds the open run of a workflow id.
func (p *Partition) openRun(workflowID string) (core.RunID, bool, error) {
	if id, ok := p.residents.byName[workflowID]; ok {
		return id, true, nil
	}
	id, ok, err := p.lookup(journal.Lookup{WorkflowID: workflowID})
	if err != nil || !ok {
		return core.RunID{}, false, err
	}
	// What is in memory is newer than the view: had the run still that name, it would have been found above.
	if p.residents.runs[id] != nil {
		return core.RunID{}, false, nil
	}
	return id, true, nil
}

func (p *Partition) lookup(by journal.Lookup) (core.RunID, bool, error) {
	id, err := p.cfg.Journal.Find(p.ctx, by)
	if errors.Is(err, journal.ErrNotFound) {
		return core.RunID{}, false, nil
	}
	return id, err == nil, err
}

// newID makes a UUIDv7 whose sub-millisecond part is the instant's, so that ids sort by creation.
func (p *Partition) newID() core.RunID {
	for {
		id := makeID(p.now, p.cfg.Random(), p.cfg.Random())
		if p.residents.runs[id] == nil {
			return id
		}
	}
}

func makeID(now core.Time, high, low uint64) core.RunID {
	var id core.RunID
	ms, us := uint64(now)/1000, uint64(now)%1000
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	fraction := us<<2 | high&3 // ten bits of microseconds, two random ones
	id[6], id[7] = 0x70|byte(fraction>>8), byte(fraction)
	for i := range 8 {
		id[8+i] = byte(low >> (56 - 8*i))
	}
	id[8] = 0x80 | id[8]&0x3f
	return id
}

// find resolves a workflow id among the runs in memory; what it does not find, the view knows.
func (p *Partition) find(c *Call) {
	if id, ok := p.residents.byName[c.Name]; ok {
		c.Started.Run = id
	} else if id, err := core.ParseRunID(c.Name); err == nil && p.residents.runs[id] != nil {
		c.Started.Run = id
	} else {
		c.Absent = true
		c.Started.Run = p.latest(c.Name)
	}
	p.reply(c)
}

// latest returns the newest closed run of the workflow id that the view may not know yet.
func (p *Partition) latest(workflowID string) core.RunID {
	var found *run
	consider := func(r *run) {
		if r.state.WorkflowID == workflowID && (found == nil || r.state.CreatedAt > found.state.CreatedAt) {
			found = r
		}
	}
	p.pipeline.unviewed(consider)
	if found == nil {
		return core.RunID{}
	}
	return found.id()
}
