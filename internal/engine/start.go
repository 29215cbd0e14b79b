package engine

import (
	"bytes"
	"errors"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// StartCall makes a run, or finds the one that has the request's key, id or workflow id.
type StartCall struct {
	saving[Started]
	Start StartRequest

	workflow *workflow // the workflow of Start.Definition; nil: the partition compiles it
}

func (*StartCall) op() string { return "start" }

func (c *StartCall) do(p *Partition) { p.starts.start(c) }

// starts makes runs for callers. It also keeps the idempotency keys of this partition that were used for runs of other
// partitions.
//
// A run lives in the partition of its workflow id. A start that has a key, too, goes to the partition of the key. It
// claims the key for a new run, in the batch with the message that starts the run, and answers its caller once the
// result of the start is reported. A claim whose start is refused is removed. So one key starts one run, whatever
// workflow ids its starts name, and whichever process dies meanwhile.
type starts struct {
	*base
	heart
	residents *residents
	pipeline  *pipeline

	// claims are those in progress: their start is not answered, or the answer is not durable.
	claims map[startKey]*claim
}

func (s *starts) start(c *StartCall) {
	if c.Start.Key != "" && s.partitions > 1 && s.startKeyed(c) {
		return
	}
	c.Answer, c.Err = s.startRun(&c.Start, c.workflow)
	s.pipeline.reply(c)
}

func (s *starts) startRun(req *StartRequest, w *workflow) (Started, error) {
	if home, named, err := Home(req, s.partitions); err != nil {
		return Started{}, err
	} else if named && home != s.cfg.Partition {
		return Started{}, invalid("start", req.Definition.Name,
			"it belongs to partition %d, this is partition %d", home, s.cfg.Partition)
	}
	var newest core.RunID // run of the workflow id, as far as it was looked for
	if req.OnConflict == ConflictReplace {
		var err error
		if newest, err = s.replace(req); err != nil {
			return Started{}, err
		}
	}
	if found, err := s.existing(req); err != nil || found.Existing {
		return found, err
	}
	if req.Newest != nil && req.WorkflowID != "" && newest == (core.RunID{}) {
		var err error
		if newest, _, err = s.pipeline.newest(s.base, req.WorkflowID); err != nil {
			return Started{}, failure("start", req.WorkflowID, err)
		}
		if err := checkNewest(req, newest, false); err != nil {
			return Started{}, err
		}
	}
	return s.create(req, w, newest)
}

// checkNewest refuses a start if the newest run of its workflow id is not the one that its caller has looked at.
func checkNewest(req *StartRequest, id core.RunID, open bool) error {
	if req.Newest == nil || *req.Newest == id {
		return nil
	}
	return &Error{
		Code: CodeConflict, Op: "start", ID: req.WorkflowID,
		Err:  AlreadyStarted{Run: id, Open: open},
		Hint: "look at the newest run of the workflow id, and start again",
	}
}

// replace terminates the open run of a request's workflow id, in the batch in which the new run begins, and returns it.
func (s *starts) replace(req *StartRequest) (core.RunID, error) {
	id, found, err := s.residents.openRun(req.WorkflowID)
	if err != nil {
		return id, failure("start", req.WorkflowID, err)
	}
	if !found {
		return core.RunID{}, nil
	}
	if err := checkNewest(req, id, true); err != nil {
		return id, err
	}
	open, err := s.get(id)
	if err == nil {
		err = s.advance(open, nil, replaced(req.Actor))
	}
	if err != nil {
		return id, Refused("start", id, err)
	}
	s.settle()
	return id, nil
}

// create makes the run of a request. Its id sorts behind that of the newest run of its workflow id, though the clock
// may have gone back; zero: none is known.
func (s *starts) create(req *StartRequest, w *workflow, newest core.RunID) (Started, error) {
	if w == nil {
		var err error
		if w, err = s.defs.use(s.ctx, &req.Definition); err != nil {
			return Started{}, invalid("start", req.Definition.Name, "the definition cannot be used: %w", err)
		}
	}
	id := req.RunID
	if id == (core.RunID{}) {
		id = s.residents.newID(req.Definition.Name, req.WorkflowID, req.Key).After(newest)
	}
	s.pipeline.define(&req.Definition)
	s.cfg.Carried.AddFor(id, req.Caller)
	r := s.residents.create(id, w.kind)
	r.rests = w.def.Elsewhere
	start := req.Start
	start.Definition, start.Workflow = req.Definition.ID, req.Definition.Name
	if err := s.advance(r, w.def, start); err != nil {
		delete(s.residents.runs, id)
		return Started{}, Refused("start", id, err)
	}
	s.residents.addNames(r)
	return Started{Run: id}, nil
}

// existing looks for the run that a start asks for. If the caller gave no id, key or workflow id, there is nothing
// to look for.
func (s *starts) existing(req *StartRequest) (Started, error) {
	if req.RunID != (core.RunID{}) {
		if _, err := s.get(req.RunID); err == nil {
			return Started{Run: req.RunID, Existing: true}, nil
		} else if !errors.Is(err, journal.ErrNotFound) {
			return Started{}, failure("start", req.RunID.String(), err)
		}
	}
	if req.Key != "" {
		id, found, err := s.residents.keyRun(startKey{req.Definition.Name, req.Key})
		if err != nil {
			return Started{}, failure("start", req.Key, err)
		}
		if found {
			return s.residents.existingByKey(req, id)
		}
	}
	if req.WorkflowID == "" {
		return Started{}, nil
	}
	return s.residents.existingNamed(req)
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

// FindCall looks for a workflow id or run id among the runs in memory. If it is not there, the caller looks into the
// view.
type FindCall struct {
	repeating[Found]
	Name string
}

// Found answers a FindCall.
type Found struct {
	Run    core.RunID
	Absent bool // the run is not in memory. Run is the newest closed one that the view may lack; or zero
}

func (*FindCall) op() string { return "find" }

func (c *FindCall) do(p *Partition) {
	if id, ok := p.residents.byName[c.Name]; ok {
		c.Answer.Run = id
	} else if id, err := core.ParseRunID(c.Name); err == nil && p.residents.runs[id] != nil {
		c.Answer.Run = id
	} else {
		c.Answer = Found{Run: p.pipeline.latest(c.Name), Absent: true}
	}
	p.pipeline.reply(c)
}

// newest returns the newest run of a workflow id that no open run has, and its phase; zero: there is none.
func (l *pipeline) newest(b *base, workflowID string) (core.RunID, core.RunPhase, error) {
	if r := l.latestRun(workflowID); r != nil {
		return r.id(), r.state.Phase, nil
	}
	page, err := b.cfg.Journal.List(b.ctx, journal.Query{WorkflowID: workflowID, Limit: 1})
	if err != nil || len(page.Runs) == 0 {
		return core.RunID{}, core.RunPending, err
	}
	return page.Runs[0].ID, page.Runs[0].Phase, nil
}

// latest returns the newest closed run of the workflow id among those that the view may not have yet.
func (l *pipeline) latest(workflowID string) core.RunID {
	if r := l.latestRun(workflowID); r != nil {
		return r.id()
	}
	return core.RunID{}
}

func (l *pipeline) latestRun(workflowID string) (found *run) {
	consider := func(r *run) {
		older := found != nil && bytes.Compare(r.state.ID[:], found.state.ID[:]) < 0
		if r.state.WorkflowID == workflowID && !older { // ids, since a run that was reset was created as the other one
			found = r
		}
	}
	l.eachBehind(consider)
	return found
}
