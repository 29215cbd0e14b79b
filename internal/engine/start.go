package engine

import (
	"errors"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// start makes a run, or finds the one that has the request's key, id or workflow id.
func (p *Partition) start(c *Call) {
	if c.Start.Key != "" && p.messages.partitions > 1 && p.startKeyed(c) {
		return
	}
	c.Started, c.Err = p.startRun(&c.Start, c.workflow)
	p.reply(c)
}

func (p *Partition) startRun(req *StartRequest, w *workflow) (Started, error) {
	if home, named, err := Home(req, p.messages.partitions); err != nil {
		return Started{}, err
	} else if named && home != p.cfg.Partition {
		return Started{}, invalid("start", req.Definition.Name,
			"it belongs to partition %d, this is partition %d", home, p.cfg.Partition)
	}
	if found, err := p.existing(req); err != nil || found.Existing {
		return found, err
	}
	return p.create(req, w)
}

// create makes the run of a request.
func (p *Partition) create(req *StartRequest, w *workflow) (Started, error) {
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
	p.cfg.Carried.Add(id)
	r := p.residents.create(id, w.kind)
	r.rests = w.def.Elsewhere
	err := p.advance(r, w.def, core.Start{
		Definition: req.Definition.ID, Workflow: req.Definition.Name, WorkflowID: req.WorkflowID, Key: req.Key,
		Input: req.Input, At: req.At, Firing: req.Firing, Zone: req.Zone,
		Execution: req.Execution, Run: req.Run, ExecutionAt: req.ExecutionAt, RunAt: req.RunAt,
		Keep: req.Keep, Notify: req.Notify, Actor: req.Actor, Reason: req.Reason,
		Labels: req.Labels, Queue: req.Queue, Headers: req.Headers, Chain: core.Chain{AfterFailure: req.AfterFailure},
	})
	if err != nil {
		delete(p.residents.runs, id)
		return Started{}, Refused("start", id, err)
	}
	p.residents.addNames(r)
	return Started{Run: id}, nil
}

// current returns the last run of the chain that an id belongs to.
//
// The first run of a chain may be deleted while the chain goes on. A chain without a workflow id therefore uses the
// id of its first run as workflow id, and is found by it.
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

// lookup finds a run of this partition in the view.
func (p *Partition) lookup(by journal.Lookup) (core.RunID, bool, error) {
	by.Here, by.Partition = true, p.cfg.Partition
	id, err := p.cfg.Journal.Find(p.ctx, by)
	if errors.Is(err, journal.ErrNotFound) {
		return core.RunID{}, false, nil
	}
	return id, err == nil, err
}

// Home returns the partition to which a start goes: that of its idempotency key, which may pass it on, or else that of
// its workflow id or run id. named is false if the caller gave none of them: then the run may be made in any partition.
// Errors: CodeInvalid, if the run id belongs to another partition than the workflow id or key.
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
			"the run id belongs to another partition than the workflow id or key: "+
				"leave it out, or make it with the partition key of these")
	}
	if req.Key != "" {
		home = int(core.KeyOfKey(req.Definition.Name, req.Key)) % partitions
	}
	return home, true, nil
}

// newID makes the id of a new run. The names that the caller chose give its partition key. A run without names gets
// a random key of this partition.
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

// find looks for a workflow id or run id among the runs in memory. If it is not there, the caller looks into the
// view.
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

// latest returns the newest closed run of the workflow id among those that the view may not have yet.
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
