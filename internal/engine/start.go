package engine

import (
	"errors"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// start makes a run, or finds the one that the request's key, id or workflow id stands for.
func (p *Partition) start(c *Call) {
	c.Started, c.Err = p.startRun(&c.Start, c.workflow)
	p.reply(c)
}

func (p *Partition) startRun(req *StartRequest, w *workflow) (Started, error) {
	if home, named, err := Home(req, p.mail.count); err != nil {
		return Started{}, err
	} else if named && home != p.cfg.Partition {
		return Started{}, invalid("start", req.Definition.Name, "it belongs to partition %d, this is partition %d", home, p.cfg.Partition)
	}
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
		id = p.newID(req)
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
	p.residents.addNames(r)
	return Started{Run: id}, nil
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

func (p *Partition) lookup(by journal.Lookup) (core.RunID, bool, error) {
	by.Here, by.Partition = true, p.cfg.Partition
	id, err := p.cfg.Journal.Find(p.ctx, by)
	if errors.Is(err, journal.ErrNotFound) {
		return core.RunID{}, false, nil
	}
	return id, err == nil, err
}

// Home returns the partition of the run that a start makes or finds, where its caller has named it: by an id, a workflow id
// or a key. A run that has no name may be made in any partition.
// Errors: CodeInvalid, where the names do not belong together.
func Home(req *StartRequest, partitions int) (home int, named bool, err error) {
	given := req.RunID != core.RunID{}
	if named = req.WorkflowID != "" || req.Key != ""; !named && !given {
		return 0, false, nil
	}
	key := core.PartitionKey(req.RunID)
	if named {
		key = core.KeyOfStart(req.Definition.Name, req.WorkflowID, req.Key, 0)
	}
	home = int(key) % partitions
	if named && given && int(core.PartitionKey(req.RunID))%partitions != home {
		return 0, false, invalid("start", req.RunID.String(),
			"the run id belongs to another partition than the workflow id or key: make it with the key that these have, or leave it out")
	}
	return home, true, nil
}

// newID makes the id of a new run; its partition is that of the names its caller chose, and else this one.
func (p *Partition) newID(req *StartRequest) core.RunID {
	for {
		high, low := p.cfg.Random(), p.cfg.Random()
		key := core.KeyOfStart(req.Definition.Name, req.WorkflowID, req.Key, p.ownKey(uint16(low>>48)))
		id := core.NewRunID(p.now, key, high, low)
		if p.residents.runs[id] == nil {
			return id
		}
	}
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
	p.pipeline.eachBehind(consider)
	if found == nil {
		return core.RunID{}
	}
	return found.id()
}
