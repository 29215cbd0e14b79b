package memory

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// disk is what survives a crash. Entries are kept encoded, so that no memory is shared with a caller and every test
// also tests the codec.
type disk struct {
	partitions  map[int]*partition
	definitions map[core.DefinitionID]journal.Definition
	runs        map[core.RunID]journal.RunRow
	steps       map[core.RunID]map[core.StepID]journal.StepRow
	attempts    map[core.RunID]map[attemptKey]journal.AttemptRow
	history     map[core.RunID][]journal.HistoryRow
	documents   map[string][]byte
	order       []core.RunID // the ids of runs, the oldest first
	nodes       map[string]nodeRow
	generation  journal.Generation
}

type partition struct {
	epoch, last, through uint64
	owner                string    // the owner of the epoch; empty if there is none
	until                core.Time // the end of the owner's lease, if it has a term
	pin                  string    // the node to which it is pinned; empty: none
	batches              []batch   // only those after through, and those that a feed needs
	feeds                map[string]journal.Feed
	inbox                map[int][]journal.Message // the messages by sender
	taken                map[int]uint64            // the last message taken from each sender
	ended                []endedRun                // the earliest end first; some may have gone on, or are gone
}

// endedRun is a run that has ended at an instant.
type endedRun struct {
	id core.RunID
	at core.Time
}

// end notes that a run has ended, for Prune.
func (p *partition) end(r *journal.RunRow) {
	i, _ := slices.BinarySearchFunc(p.ended, r.EndedAt, func(e endedRun, at core.Time) int {
		return cmp.Or(cmp.Compare(e.at, at), -1) // it comes after those of its instant
	})
	p.ended = slices.Insert(p.ended, i, endedRun{r.ID, r.EndedAt})
}

// oldestFeed returns the oldest position of the feeds for which batches are kept.
func (p *partition) oldestFeed() (seq uint64, ok bool) {
	for _, f := range p.feeds {
		if !f.Lapsed && (!ok || f.Seq < seq) {
			seq, ok = f.Seq, true
		}
	}
	return seq, ok
}

// mark sets new positions of feeds.
func (p *partition) mark(feeds []journal.Feed) {
	for _, f := range feeds {
		if p.feeds == nil {
			p.feeds = map[string]journal.Feed{}
		}
		if f.Removed {
			delete(p.feeds, f.Name)
		} else {
			p.feeds[f.Name] = f
		}
	}
}

type batch struct {
	seq     uint64
	entries []byte
}

type attemptKey struct {
	step    core.StepID
	attempt int
}

func newDisk() *disk {
	return &disk{
		partitions:  map[int]*partition{},
		definitions: map[core.DefinitionID]journal.Definition{},
		runs:        map[core.RunID]journal.RunRow{},
		steps:       map[core.RunID]map[core.StepID]journal.StepRow{},
		attempts:    map[core.RunID]map[attemptKey]journal.AttemptRow{},
		history:     map[core.RunID][]journal.HistoryRow{},
		documents:   map[string][]byte{},
		nodes:       map[string]nodeRow{},
	}
}

// clone returns a copy. What is never changed in place is shared.
func (d *disk) clone() *disk {
	out := *d
	out.partitions = map[int]*partition{}
	for n, p := range d.partitions {
		c := *p
		c.batches, c.ended = slices.Clone(p.batches), slices.Clone(p.ended)
		c.feeds, c.taken = maps.Clone(p.feeds), maps.Clone(p.taken)
		c.inbox = map[int][]journal.Message{}
		for from, messages := range p.inbox {
			c.inbox[from] = slices.Clone(messages)
		}
		out.partitions[n] = &c
	}
	out.definitions, out.runs, out.documents = maps.Clone(d.definitions), maps.Clone(d.runs), maps.Clone(d.documents)
	out.nodes, out.order = maps.Clone(d.nodes), slices.Clone(d.order)
	out.steps = map[core.RunID]map[core.StepID]journal.StepRow{}
	for id, steps := range d.steps {
		out.steps[id] = maps.Clone(steps)
	}
	out.attempts = map[core.RunID]map[attemptKey]journal.AttemptRow{}
	for id, attempts := range d.attempts {
		out.attempts[id] = maps.Clone(attempts)
	}
	out.history = map[core.RunID][]journal.HistoryRow{}
	for id, rows := range d.history {
		out.history[id] = slices.Clone(rows)
	}
	return &out
}

func (d *disk) partition(n int) *partition {
	p := d.partitions[n]
	if p == nil {
		p = &partition{inbox: map[int][]journal.Message{}, taken: map[int]uint64{}}
		d.partitions[n] = p
	}
	return p
}

func (d *disk) append(p *partition, b *journal.Batch) error {
	if b.View != nil {
		if err := errors.Join(d.checkHistory(b.View.History), d.checkNew(b.View)); err != nil {
			return err
		}
	}
	encoded := slices.Clone(b.Encoded)
	for i := range b.Entries {
		encoded = core.AppendEntry(encoded, &b.Entries[i])
	}
	p.batches = append(p.batches, batch{b.Seq, encoded})
	p.last = b.Seq
	for _, def := range b.Definitions {
		if _, ok := d.definitions[def.ID]; !ok {
			def.Source = slices.Clone(def.Source)
			d.definitions[def.ID] = def
		}
	}
	p.mark(b.Feeds)
	if b.View != nil {
		d.view(p, b.View)
	}
	for _, t := range b.Taken {
		p.taken[t.From] = max(p.taken[t.From], t.Through)
		rest := slices.DeleteFunc(p.inbox[t.From], func(m journal.Message) bool { return m.Seq <= t.Through })
		if p.inbox[t.From] = rest; len(rest) == 0 {
			delete(p.inbox, t.From)
		}
	}
	for _, m := range b.Out {
		d.partition(m.To).put(m)
	}
	d.putDocuments(b.Documents)
	return nil
}

func (d *disk) putDocuments(documents []journal.Document) {
	for _, doc := range documents {
		if doc.Value == nil {
			delete(d.documents, doc.Key)
			continue
		}
		d.documents[doc.Key] = slices.Clone(doc.Value)
	}
}

// put puts a message into the partition's inbox, unless it is there already.
func (p *partition) put(m journal.Message) {
	in := p.inbox[m.From]
	if m.Seq <= p.taken[m.From] || (len(in) > 0 && m.Seq <= in[len(in)-1].Seq) {
		return
	}
	m.Encoded = slices.Clone(m.Encoded)
	p.inbox[m.From] = append(in, m)
}

// checkHistory refuses a piece of history that exists already. It is called before anything is changed.
func (d *disk) checkHistory(rows []journal.HistoryRow) error {
	for _, h := range rows {
		for _, old := range d.history[h.Run] {
			if old.Seq == h.Seq {
				return fmt.Errorf("journal: the history of run %s has a piece of batch %d already", h.Run, h.Seq)
			}
		}
	}
	return nil
}

// checkNew refuses a view with a run that is marked as new and is not. Other journals rely on that.
func (d *disk) checkNew(v *journal.View) error {
	rest := v.Runs
	for _, run := range v.New {
		at := slices.IndexFunc(rest, func(r journal.RunRow) bool { return r.ID == run })
		switch {
		case at < 0:
			return fmt.Errorf("journal: the rows of run %s are not in the order of the runs", run)
		case d.has(run):
			return fmt.Errorf("journal: rows of run %s are stored already", run)
		}
		rest = rest[at+1:]
	}
	return nil
}

func (d *disk) has(run core.RunID) bool {
	_, row := d.runs[run]
	return row || len(d.steps[run])+len(d.attempts[run])+len(d.history[run]) > 0
}

func (d *disk) view(p *partition, v *journal.View) {
	for _, r := range v.Runs {
		before, ok := d.runs[r.ID]
		if !ok {
			i, _ := d.place(r.ID)
			d.order = slices.Insert(d.order, i, r.ID)
		}
		if r.Phase.Closed() && (!before.Phase.Closed() || before.EndedAt != r.EndedAt) {
			p.end(&r)
		}
		d.runs[r.ID] = r
	}
	for _, s := range v.Steps {
		if d.steps[s.Run] == nil {
			d.steps[s.Run] = map[core.StepID]journal.StepRow{}
		}
		d.steps[s.Run][s.Step] = s
	}
	for _, a := range v.Attempts {
		if d.attempts[a.Run] == nil {
			d.attempts[a.Run] = map[attemptKey]journal.AttemptRow{}
		}
		d.attempts[a.Run][attemptKey{a.Step, a.Attempt}] = a
	}
	for _, h := range v.History {
		h.Entries = slices.Clone(h.Entries)
		pieces := append(d.history[h.Run], h)
		slices.SortFunc(pieces, func(a, b journal.HistoryRow) int { return cmp.Compare(a.Seq, b.Seq) })
		d.history[h.Run] = pieces
	}
	if v.Through > p.through {
		p.through = min(v.Through, p.last)
		drop := p.through
		if oldest, ok := p.oldestFeed(); ok {
			drop = min(drop, oldest)
		}
		p.batches = slices.DeleteFunc(slices.Clone(p.batches), func(b batch) bool { return b.seq <= drop })
	}
}

// place returns where the id of a run is in the order, or belongs.
func (d *disk) place(id core.RunID) (int, bool) {
	return slices.BinarySearchFunc(d.order, id, func(a, b core.RunID) int { return bytes.Compare(a[:], b[:]) })
}

// newest returns the ids of all runs, the newest first.
func (d *disk) newest() iter.Seq2[int, core.RunID] { return slices.Backward(d.order) }

func (d *disk) drop(id core.RunID) {
	delete(d.runs, id)
	delete(d.steps, id)
	delete(d.attempts, id)
	delete(d.history, id)
	if i, ok := d.place(id); ok {
		d.order = slices.Delete(d.order, i, i+1)
	}
}
