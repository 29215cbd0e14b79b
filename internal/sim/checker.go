package sim

import (
	"hash"
	"hash/fnv"
	"slices"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/temporal/history"
)

// checker knows what became durable. The storage gives it each batch that it stored. The engine has no access to it.
type checker struct {
	u        *universe
	accounts map[core.RunID]*account
	order    []*account // the accounts in the order in which they were created
	batches  int
	entries  int
	attempts int // number of attempts that were started
	rewound  int // steps that retries have dropped
	// Retries that have changed labels back, and events that they have given back.
	relabelled, returned int
	poisoned             int   // poisonous steps that were stopped
	appending            *node // the node that is in Append now
	sentMessages
	hash hash.Hash64

	openNames map[string]*account // open runs by workflow id
	keys      map[workflowKey]*account
	events    map[core.RunID]map[string]bool // the events of each chain as "name id", by the chain's first run
	marks     map[string]*account            // the marks of clients' requests that are in the journal
	// toldNotSaved has the marks of requests whose callers got the answer that nothing was saved, and the error they
	// got.
	toldNotSaved map[string]string
}

// workflowKey is an idempotency key, which belongs to a workflow. It starts one run in all partitions together.
type workflowKey struct{ workflow, key string }

// account is what the checker knows about one run.
type account struct {
	id      core.RunID
	entries []core.Entry
	encoded [][]byte
	seqs    []uint64
	inView  int       // how many entries the view has
	state   *core.Run // the state that follows from the entries
	model   runModel
	body    *bodyModel // nil: a flow decides
	sdk     *sdkModel  // nil: no SDK decides

	document *flow.Document // nil: a body decides

	children map[core.StepID]core.RunID // the child run of each step's last attempt

	foretold foretold

	compared    *core.Run // the engine's run when it was last compared, and its Seq then
	comparedSeq int
}

func newChecker(u *universe) *checker {
	return &checker{
		u: u, accounts: map[core.RunID]*account{}, hash: fnv.New64a(), openNames: map[string]*account{},
		keys: map[workflowKey]*account{}, sentMessages: newSentMessages(), events: map[core.RunID]map[string]bool{},
		marks: map[string]*account{}, toldNotSaved: map[string]string{},
	}
}

// noteOwner notes that a node has taken over its partition.
func (ch *checker) noteOwner(n *node) {
	n.home.owner = n
	n.process.joined(n)
	ch.findOpen(n)
}

// addBatch checks and keeps a batch that the disk has stored.
func (ch *checker) addBatch(batch *journal.Batch) {
	s := ch.u.partitions[batch.Partition]
	if ch.appending != s.owner {
		ch.u.violate(Fencing, core.RunID{}, "batch %d of %s was stored although %s has taken over",
			batch.Seq, ch.appending.name, s.owner.name)
	}
	if batch.Seq != s.lastBatch+1 {
		ch.u.violate(Replay, core.RunID{}, "batch %d follows batch %d", batch.Seq, s.lastBatch)
	}
	s.lastBatch = batch.Seq
	ch.batches++
	_, _ = ch.hash.Write(batch.Encoded)
	for rest := batch.Encoded; len(rest) > 0; {
		e, after, err := core.ReadEntry(rest)
		if err != nil {
			ch.u.violate(Replay, core.RunID{}, "batch %d cannot be read: %v", batch.Seq, err)
			return
		}
		ch.addEntry(e, append([]byte(nil), rest[:len(rest)-len(after)]...), batch.Seq)
		rest = after
	}
	ch.checkMessages(batch)
	if batch.View != nil {
		ch.checkView(batch)
	}
}

// addEntry checks one entry and applies it to the account of its run.
func (ch *checker) addEntry(e core.Entry, encoded []byte, seq uint64) {
	a := ch.accounts[e.Run]
	if a == nil {
		a = ch.openAccount(e)
		if a == nil {
			return
		}
	}
	a.entries, a.encoded, a.seqs = append(a.entries, e), append(a.encoded, encoded), append(a.seqs, seq)
	if a.body != nil {
		a.body.checkClose(a, e)
		a.body.checkRetry(a, e)
		a.body.noteStopped(a, e)
	}
	a.sdk.addEntry(a, e)
	wake := a.state.Wake() // warnings wake a run too, and the model does not know them
	a.checkForetold(ch, e)
	a.state.Fold(e)
	a.foretell()
	ch.entries++
	due := a.model.applyEntry(ch, a, e)
	if a.sdk.copied(a) {
		due = 0
	}
	ch.checkResting(ch.appending, a, e, due)
	ch.limited(ch.appending, a, e)
	if a.body != nil {
		a.body.applyEntry(a, e)
	}
	if due != 0 {
		due = due.Earlier(wake)
	}
	ch.checkTimerOrder(ch.appending, a, due)
	ch.noteMarks(a, e)
	ch.batchEntries = append(ch.batchEntries, batchEntry{a, e})
}

// openAccount makes the account of a run that was created.
func (ch *checker) openAccount(e core.Entry) *account {
	created, ok := e.Records[0].(core.RunCreated)
	if !ok {
		ch.u.violate(Recorded, e.Run, "the run's first record is %s", recordText(e.Records[0]))
		return nil
	}
	w, err := workflowNamed(created.Workflow)
	if err != nil {
		ch.u.violate(Recorded, e.Run, "%v", err)
		return nil
	}
	a := &account{id: e.Run, state: core.Restore(e.Run, w.compiled, nil), document: w.document}
	if w.program != nil {
		a.body = &bodyModel{u: ch.u, program: w.program, stopped: map[core.StepID]bool{}, talk: newTalkModel()}
	}
	a.model.ch = ch
	if w.sdk {
		a.sdk = &sdkModel{fold: history.New(e.Run)}
	}
	ch.accounts[e.Run] = a
	ch.noteStart(created, e.Run)
	ch.order = append(ch.order, a)
	if created.Key != "" {
		key := workflowKey{created.Workflow, created.Key}
		if other := ch.keys[key]; other != nil && other.id != created.Chain.Previous {
			ch.u.violate(Unique, e.Run, "run %s of %s has the key %q already", other.id, key.workflow, key.key)
		}
		ch.keys[key] = a
	}
	if was := created.Chain.Previous; was != (core.RunID{}) && core.PartitionKey(was) != core.PartitionKey(e.Run) {
		ch.u.violate(Recorded, e.Run, "the run follows run %s, which has another partition key", was)
	}
	if ch.u.partitionOf(e.Run) != ch.appending.home {
		ch.u.violate(Recorded, e.Run, "the run was created by %s, which does not own its partition", ch.appending.name)
	}
	if name := created.WorkflowID; name != "" {
		if other := ch.openNames[name]; other != nil && !other.model.closed {
			ch.u.violate(Unique, e.Run, "the open run %s has the workflow id %q already", other.id, name)
		}
		ch.openNames[name] = a
	}
	return a
}

// noteMarks notes the marks of the clients' requests that an entry holds. The batch that has created a run with entries
// of another one has known marks, and perhaps new ones.
func (ch *checker) noteMarks(a *account, e core.Entry) {
	for _, rec := range e.Records {
		mark := ""
		switch rec := rec.(type) {
		case core.RunCreated:
			mark = rec.Reason
		case core.Operated:
			mark = rec.Reason
		case core.SignalKept:
			if !rec.Carried && !rec.Back {
				mark = string(rec.Payload)
			}
		default: // no client asked for it
		}
		if mark == "" || rec == nil || a.sdk.copied(a) && ch.marks[mark] != nil {
			continue
		}
		if told, denied := ch.toldNotSaved[mark]; denied {
			ch.u.violate(Untouched, a.id, "%s is in the journal; its caller was told: %s", mark, told)
		}
		if _, twice := ch.marks[mark]; twice && mark[0] == '#' {
			ch.u.violate(Acknowledged, a.id, "%s is in the journal twice", mark)
		}
		ch.marks[mark] = a
	}
}

// open counts the runs that have not ended.
func (ch *checker) open() int {
	n := 0
	for _, a := range ch.order {
		if !a.model.closed {
			n++
		}
	}
	return n
}

// anyOpen returns a run that has not ended.
func (ch *checker) anyOpen() core.RunID {
	for _, a := range ch.order {
		if !a.model.closed {
			return a.id
		}
	}
	return core.RunID{}
}

// checkObserved checks the calls of an observer: they are in the journal, with the same instants.
func (ch *checker) checkObserved(o *engine.Observation) {
	a := ch.accounts[o.ID]
	if a == nil {
		ch.u.violate(Acknowledged, o.ID, "an observer is told of %s, and the journal has nothing of the run",
			recordText(o.Record))
		return
	}
	if o.Run.Headers != a.model.headers {
		ch.u.violate(Recorded, o.ID, "an observer is told of the headers %q, the run has %q", o.Run.Headers,
			a.model.headers)
	}
	switch rec := o.Record.(type) {
	case core.RunEnded:
		if !slices.Contains(a.model.ends, rec.Phase) {
			ch.u.violate(Acknowledged, o.ID, "an observer is told that the run is %s, which is not in the journal",
				rec.Phase)
		}
	case core.AttemptStarted:
		ch.checkObservedAttempt(a, o, rec.Step)
	case core.AttemptEnded:
		ch.checkObservedAttempt(a, o, rec.Step)
	default:
	}
}

func (ch *checker) checkObservedAttempt(a *account, o *engine.Observation, step core.StepID) {
	n, row := o.Attempt.Attempt, o.Attempt
	if int(step) >= len(a.model.steps) || n < 1 || n > len(a.model.steps[step].attempts) {
		ch.u.violate(Acknowledged, a.id, "an observer is told of attempt %d of step %d, which is not in the journal",
			n, step)
		return
	}
	// Its end may be in the journal already when its start is reported.
	at := a.model.steps[step].attempts[n-1]
	if row.ReadyAt != at.ready || row.Started != at.started || row.Ended != 0 && row.Ended != at.ended {
		ch.u.violate(Recorded, a.id, "an observer is told of attempt %d of step %d with the instants %s, %s and %s, "+
			"the journal has %s, %s and %s", n, step, offset(row.ReadyAt), offset(row.Started), offset(row.Ended),
			offset(at.ready), offset(at.started), offset(at.ended))
	}
}

// operatedSinceStart reports whether an operation was applied to the run after the last attempt of a step had started:
// it may have moved the attempt's deadline before the attempt was given to its worker.
func (a *account) operatedSinceStart(step core.StepID) bool {
	for i := len(a.entries) - 1; i >= 0; i-- {
		for _, rec := range slices.Backward(a.entries[i].Records) {
			switch rec := rec.(type) {
			case core.Operated:
				return true
			case core.AttemptStarted:
				if rec.Step == step {
					return false
				}
			default:
			}
		}
	}
	return false
}

// checkDispatch checks an attempt that a worker gets: its start must be durable, and it must be the live attempt.
func (ch *checker) checkDispatch(n *node, t core.Task) {
	a := ch.accounts[t.Token.Run]
	if a == nil || int(t.Token.Step) >= len(a.model.steps) {
		ch.u.violate(Acknowledged, t.Token.Run, "a worker gets attempt %s, and the journal has nothing of it",
			tokenText(t.Token))
		return
	}
	if t.Headers != a.model.headers {
		ch.u.violate(Recorded, a.id, "a worker gets attempt %s with the headers %q, its run has %q",
			tokenText(t.Token), t.Headers, a.model.headers)
	}
	s := &a.model.steps[t.Token.Step]
	if t.Token.Attempt > s.attempt || (t.Token.Attempt == s.attempt && !s.began) {
		ch.u.violate(Acknowledged, a.id, "a worker gets attempt %s before its start is in the journal",
			tokenText(t.Token))
	}
	current := n == n.home.owner && t.Token.Attempt == s.attempt && s.live && a.model.paused == 0 &&
		!a.operatedSinceStart(t.Token.Step)
	if d := a.model.attemptDeadline(s); current && (t.Deadline == 0) != (d == 0) {
		ch.u.violate(NotAfter, a.id, "attempt %s was given the deadline %s, but its deadline is %s",
			tokenText(t.Token), offset(t.Deadline), offset(d))
	}
}
