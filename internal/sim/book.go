package sim

import (
	"hash"
	"hash/fnv"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// book is the truth about what became durable, kept apart from the engine: the storage tells it each batch it stored.
type book struct {
	u        *universe
	accounts map[core.RunID]*account
	order    []*account // by creation
	batches  int
	entries  int
	attempts int   // started
	rewound  int   // steps that retries have dropped
	poisoned int   // poisonous steps that were stopped
	writer   *node // whose append is under way
	mailbox
	hash hash.Hash64

	openNames map[string]*account // open runs by workflow id
	keys      map[workflowKey]*account
	events    map[core.RunID]map[string]bool // names and ids of the events of a chain, by its first run
	marks     map[string]*account            // marks of clients' requests that are in the journal
	denied    map[string]string              // marks of requests whose callers were told that nothing was saved, and what they were told
}

// workflowKey is an idempotency key, which belongs to a workflow. With several partitions the same key beside another workflow
// id may live elsewhere, where nobody knows of it.
type workflowKey struct {
	workflow, key string
	seat          *seat
}

// account is what the book knows of a run.
type account struct {
	id      core.RunID
	entries []core.Entry
	encoded [][]byte
	seqs    []uint64
	viewed  int       // entries that the view has
	shadow  *core.Run // the fold of the entries
	model   runModel
	body    *bodyModel // nil: a flow decides

	children map[core.StepID]core.RunID // the child run of each step's last attempt, where there are several partitions

	seen    *core.Run // in the engine's memory when last compared
	seenSeq int
}

func newBook(u *universe) *book {
	return &book{
		u: u, accounts: map[core.RunID]*account{}, hash: fnv.New64a(), openNames: map[string]*account{},
		keys: map[workflowKey]*account{}, mailbox: newMailbox(), events: map[core.RunID]map[string]bool{}, marks: map[string]*account{}, denied: map[string]string{},
	}
}

// acquired takes note of a new owner.
func (b *book) acquired(n *node) { n.seat.owner = n }

// stored takes a batch that the disk has.
func (b *book) stored(batch *journal.Batch) {
	s := b.u.seats[batch.Partition]
	if b.writer != s.owner {
		b.u.violate(Fencing, core.RunID{}, "batch %d of %s was stored although %s has taken over", batch.Seq, b.writer.name, s.owner.name)
	}
	if batch.Seq != s.seq+1 {
		b.u.violate(Replay, core.RunID{}, "batch %d follows batch %d", batch.Seq, s.seq)
	}
	s.seq = batch.Seq
	b.batches++
	_, _ = b.hash.Write(batch.Encoded)
	for rest := batch.Encoded; len(rest) > 0; {
		e, after, err := core.ReadEntry(rest)
		if err != nil {
			b.u.violate(Replay, core.RunID{}, "batch %d cannot be read: %v", batch.Seq, err)
			return
		}
		b.enter(e, append([]byte(nil), rest[:len(rest)-len(after)]...), batch.Seq)
		rest = after
	}
	b.mailed(batch)
	if batch.View != nil {
		b.checkView(batch)
	}
}

// enter books one entry.
func (b *book) enter(e core.Entry, encoded []byte, seq uint64) {
	a := b.accounts[e.Run]
	if a == nil {
		a = b.open1(e)
		if a == nil {
			return
		}
	}
	a.entries, a.encoded, a.seqs = append(a.entries, e), append(a.encoded, encoded), append(a.seqs, seq)
	if a.body != nil {
		a.body.closes(a, e)
		a.body.retried(a, e)
		a.body.ended(a, e)
	}
	wake := a.shadow.Wake() // warnings wake a run, too, and the model does not know them
	a.shadow.Fold(e)
	b.entries++
	due := a.model.fold(b, a, e)
	if a.body != nil {
		a.body.fold(a, e)
	}
	if due != 0 {
		due = policy.Earliest(due, wake)
	}
	b.fired(b.writer, a, due)
	b.remark(a, e)
	if len(b.u.seats) > 1 {
		b.fresh = append(b.fresh, freshEntry{a, e})
	}
}

// open1 opens the account of a run that was created.
func (b *book) open1(e core.Entry) *account {
	created, ok := e.Records[0].(core.RunCreated)
	if !ok {
		b.u.violate(Recorded, e.Run, "the run's first record is %s", recordText(e.Records[0]))
		return nil
	}
	w, err := workflowNamed(created.Workflow)
	if err != nil {
		b.u.violate(Recorded, e.Run, "%v", err)
		return nil
	}
	a := &account{id: e.Run, shadow: core.Restore(e.Run, w.compiled, nil)}
	if w.program != nil {
		a.body = &bodyModel{u: b.u, program: w.program, stopped: map[core.StepID]bool{}}
	}
	b.accounts[e.Run] = a
	b.order = append(b.order, a)
	if created.Key != "" {
		key := workflowKey{created.Workflow, created.Key, b.u.seatOf(e.Run)}
		if other := b.keys[key]; other != nil && other.id != created.Chain.Previous {
			b.u.violate(Unique, e.Run, "the key %q has made run %s of %s before", key.key, other.id, key.workflow)
		}
		b.keys[key] = a
	}
	if was := created.Chain.Previous; was != (core.RunID{}) && core.PartitionKey(was) != core.PartitionKey(e.Run) {
		b.u.violate(Recorded, e.Run, "it has another partition key than run %s, which it follows", was)
	}
	if b.u.seatOf(e.Run) != b.writer.seat {
		b.u.violate(Recorded, e.Run, "it was created by %s, where it does not live", b.writer.name)
	}
	if name := created.WorkflowID; name != "" {
		if other := b.openNames[name]; other != nil && !other.model.closed {
			b.u.violate(Unique, e.Run, "the workflow id %q is that of the open run %s", name, other.id)
		}
		b.openNames[name] = a
	}
	return a
}

// remark notes whose wishes an entry holds.
func (b *book) remark(a *account, e core.Entry) {
	for _, rec := range e.Records {
		mark := ""
		switch rec := rec.(type) {
		case core.RunCreated:
			mark = rec.Reason
		case core.Operated:
			mark = rec.Reason
		case core.SignalKept:
			if !rec.Carried {
				mark = string(rec.Payload)
			}
		default: // nobody asked for it
		}
		if mark == "" || rec == nil {
			continue
		}
		if told, denied := b.denied[mark]; denied {
			b.u.violate(Untouched, a.id, "%s is in the journal; its caller was told: %s", mark, told)
		}
		if _, twice := b.marks[mark]; twice && mark[0] == '#' {
			b.u.violate(Acknowledged, a.id, "%s is in the journal twice", mark)
		}
		b.marks[mark] = a
	}
}

// open counts the runs that have not ended.
func (b *book) open() int {
	n := 0
	for _, a := range b.order {
		if !a.model.closed {
			n++
		}
	}
	return n
}

// anyOpen returns a run that has not ended.
func (b *book) anyOpen() core.RunID {
	for _, a := range b.order {
		if !a.model.closed {
			return a.id
		}
	}
	return core.RunID{}
}

// dispatched checks an attempt that a worker is given: its start is durable, and it is the one that lives.
func (b *book) dispatched(n *node, t core.Task) {
	a := b.accounts[t.Token.Run]
	if a == nil || int(t.Token.Step) >= len(a.model.steps) {
		b.u.violate(Acknowledged, t.Token.Run, "attempt %s is dispatched and nothing of it is in the journal", tokenText(t.Token))
		return
	}
	s := &a.model.steps[t.Token.Step]
	if t.Token.Attempt > s.attempt || (t.Token.Attempt == s.attempt && !s.began) {
		b.u.violate(Acknowledged, a.id, "attempt %s is dispatched before its start is in the journal", tokenText(t.Token))
	}
	if d := a.model.effective(s); n == n.seat.owner && t.Token.Attempt == s.attempt && s.live && !a.model.operated && a.model.paused == 0 && (t.Deadline == 0) != (d == 0) {
		b.u.violate(NotAfter, a.id, "attempt %s is given the deadline %s, it has %s", tokenText(t.Token), offset(t.Deadline), offset(d))
	}
}
