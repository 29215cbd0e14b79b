package sqlite

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/disktest"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/journaltest"
)

var (
	cuts    = flag.Int("cuts", 20, "how often TestPowerCut cuts the power")
	cutSeed = flag.Uint64("cuts.seed", 0, "the seed of TestPowerCut; 0: a new one each time")
)

// TestPowerCut cuts the power while batches of three partitions are appended, in the middle of checkpoints, of the
// opening and of the closing. What was not synced is lost in part, see package disktest. The file is intact after each
// cut, and it has every batch that was acknowledged, with its part of the view and its messages.
//
// The seed decides what is written and what is lost. It does not decide how the goroutines take turns.
func TestPowerCut(t *testing.T) {
	seed := *cutSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("%d cuts, -cuts.seed=%d", *cuts, seed)
	for n := 0; n < *cuts && !t.Failed(); {
		const most = 20 // the most cuts on one file, because it grows
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			o := &outages{T: t, random: rand.New(rand.NewPCG(seed, uint64(n)))}
			n += o.run(min(most, *cuts-n))
		})
	}
}

// outages are what a series of power cuts on one file must leave.
type outages struct {
	*testing.T
	random       *rand.Rand
	acknowledged [cutPartitions]uint64 // the last batch of each partition that is known to be durable
	sent         [cutPartitions]uint64 // the last one that may be there
}

const cutPartitions = 3

// acknowledgement is the mark of a batch that was acknowledged.
type acknowledgement struct {
	partition int
	seq       uint64
}

// run cuts the power so many times. It opens the file after each cut. Then it goes on with what else the last cut may
// have left, which nobody has opened yet.
func (o *outages) run(most int) (cuts int) {
	disk := disktest.New(o.T)
	for cuts < most && !o.Failed() {
		before := o.acknowledged
		o.work(disk)
		at := 0
		for n := 1 + o.random.IntN(4); n > 0 && cuts < most; n-- {
			at = disk.CutAnywhere(o.random)
			left, marks := disk.Cut(o.T, at, o.random)
			o.acknowledged = before
			o.note(marks)
			o.check(left)
			cuts++
		}
		disk, _ = disk.Cut(o.T, at, o.random)
	}
	return cuts
}

// note takes over what was acknowledged before a cut.
func (o *outages) note(marks []any) {
	for _, m := range marks {
		a := m.(acknowledgement)
		o.acknowledged[a.partition] = max(o.acknowledged[a.partition], a.seq)
	}
}

// work opens the file and appends to all partitions at once, with checkpoints in between. At the end it closes the
// file.
func (o *outages) work(disk *disktest.Disk) {
	j, err := Open(disk.Path("pawl.db"), Options{Partitions: cutPartitions})
	if err != nil {
		o.Fatal(err)
	}
	var all sync.WaitGroup
	for p := range cutPartitions {
		lease := o.acquire(j, p)
		if o.Failed() {
			break
		}
		disk.Mark(acknowledgement{p, lease.Last})
		w := &cutWriter{T: o.T, disk: disk, j: j, partition: p, lease: lease}
		n := 1 + o.random.IntN(20)
		o.sent[p] = lease.Last + uint64(n)
		all.Go(func() { w.write(n) })
	}
	for range o.random.IntN(3) {
		mode := []string{"PASSIVE", "TRUNCATE"}[o.random.IntN(2)]
		all.Go(func() {
			if mode == "TRUNCATE" { // as the checkpointer does it
				j.mu.Lock()
				defer j.mu.Unlock()
			}
			o.checkpoint(j, mode)
		})
	}
	all.Wait()
	if err := j.Close(); err != nil {
		o.Error(err)
	}
}

var checkpointing sync.Mutex // the checkpointer's connection is used by one goroutine at a time

func (o *outages) checkpoint(j *Journal, mode string) {
	checkpointing.Lock()
	defer checkpointing.Unlock()
	if _, _, err := j.check.checkpoint(mode); err != nil {
		o.Error(err)
	}
}

// acquire takes a partition over and checks where it stands.
func (o *outages) acquire(j *Journal, p int) journal.Lease {
	lease, err := j.Acquire(o.Context(), p, "test")
	if err != nil {
		o.Error(err)
	}
	if lease.Last < o.acknowledged[p] || lease.Last > o.sent[p] {
		o.Errorf("partition %d ends with batch %d: batch %d was acknowledged, batch %d was the last one",
			p, lease.Last, o.acknowledged[p], o.sent[p])
	}
	return lease
}

// cutWriter appends batches to one partition.
type cutWriter struct {
	*testing.T
	disk      *disktest.Disk
	j         *Journal
	partition int
	lease     journal.Lease
}

// write appends n batches. Each begins a run and ends the run of the batch before. Every fourth one brings the view up
// to date, every fifth one sends a message to the next partition, and every third one takes what is in the inbox.
func (w *cutWriter) write(n int) {
	viewed := w.lease.Through
	for seq := w.lease.Last + 1; seq <= w.lease.Last+uint64(n); seq++ {
		b := &journal.Batch{
			Partition: w.partition, Epoch: w.lease.Epoch, Seq: seq, Entries: cutEntries(w.partition, seq),
			Definitions: []journal.Definition{cutDefinition(seq)},
		}
		if seq%4 == 0 {
			b.View = cutView(w.partition, viewed, seq-1)
			viewed = seq - 1
		}
		if seq%5 == 0 {
			b.Out = []journal.Message{cutMessage(w.partition, seq)}
		}
		if seq%3 == 0 {
			in, err := w.j.Inbox(context.Background(), w.partition, w.lease.Taken, 10)
			if err != nil {
				w.Error(err)
			}
			for _, m := range in {
				b.Taken = []journal.Taken{{From: m.From, Through: m.Seq}}
			}
		}
		if err := w.j.Append(context.Background(), b); err != nil {
			w.Error(err)
			return
		}
		w.disk.Mark(acknowledgement{w.partition, seq})
	}
}

// cutRun numbers the run that a batch begins.
func cutRun(partition int, seq uint64) int { return int(seq)*cutPartitions + partition }

func cutDefinition(seq uint64) journal.Definition {
	id := core.DefinitionID{byte(seq/7 + 1)}
	return journal.Definition{ID: id, Kind: "flow", Name: fmt.Sprint("flow ", id[0]), Source: []byte("steps: []")}
}

// cutEntries returns entries that begin a run and end another one.
func cutEntries(partition int, seq uint64) []core.Entry {
	begin := created(cutRun(partition, seq), false)
	d := cutDefinition(seq)
	begin.Records[0] = core.RunCreated{Definition: d.ID, Workflow: d.Name}
	if seq%7 == 0 {
		begin.Records[0] = core.RunCreated{Definition: d.ID, Workflow: d.Name, Input: make([]byte, journal.LargeEntry)}
	}
	if seq == 1 {
		return []core.Entry{begin}
	}
	return []core.Entry{begin, ended1(cutRun(partition, seq-1))}
}

// cutView returns the view of what happened to the runs in the batches from after+1 to through.
func cutView(partition int, after, through uint64) *journal.View {
	v := &journal.View{Through: through}
	for seq := max(after, 1); seq <= through; seq++ {
		n, d := cutRun(partition, seq), cutDefinition(seq)
		row := journal.RunRow{
			ID: journaltest.RunID(n), Partition: partition, Workflow: d.Name, Definition: d.ID, Phase: core.RunRunning,
			CreatedAt: instant0 + core.Time(n), Applied: seq,
		}
		entries := cutEntries(partition, seq)[:1]
		if seq <= after {
			entries = nil // the view has its beginning
		}
		if seq < through {
			row.Phase, row.EndedAt, row.Applied = core.RunSucceeded, row.CreatedAt+1, seq+1
			entries = append(entries, cutEntries(partition, seq+1)[1])
		}
		v.Runs = append(v.Runs, row)
		v.Steps = append(v.Steps, journal.StepRow{Run: row.ID, Name: "copy files"})
		v.Attempts = append(v.Attempts, journal.AttemptRow{Run: row.ID, Attempt: 1, Worker: fmt.Sprint("w", n%5)})
		if entries == nil {
			continue
		}
		piece := journal.HistoryRow{Run: row.ID, Seq: row.Applied}
		for i := range entries {
			from := len(piece.Entries)
			piece.Entries = core.AppendEntry(piece.Entries, &entries[i])
			if to := len(piece.Entries); to-from >= journal.LargeEntry { // it begins the run
				piece.Large = append(piece.Large, journal.Large{Run: row.ID, Seq: seq, From: from, To: to})
			}
		}
		v.History = append(v.History, piece)
	}
	return v
}

func cutMessage(partition int, seq uint64) journal.Message {
	return journal.Message{
		From: partition, To: (partition + 1) % cutPartitions, Seq: journal.MessageSeq(seq, 0),
		Encoded: core.AppendMessage(nil, &core.Message{Name: fmt.Sprint(seq), Content: core.ChildAsk{}}),
	}
}

// check opens what a cut has left.
func (o *outages) check(disk *disktest.Disk) {
	path := disk.Path("pawl.db")
	j, err := Open(path, Options{Partitions: cutPartitions})
	if err != nil {
		o.Fatal(err)
	}
	var leases [cutPartitions]journal.Lease
	for p := range leases {
		leases[p] = o.acquire(j, p)
	}
	for p := range leases {
		o.checkRuns(j, p, leases[p])
		o.checkMessages(j, p, leases)
	}
	if r, err := Check(o.Context(), path); err != nil || len(r.Problems) > 0 {
		o.Errorf("the file is damaged: %v, %q", err, r.Problems)
	}
	if err := j.Close(); err != nil {
		o.Error(err)
	}
}

// checkRuns checks that the runs of a partition are there, in the journal's tail and in the view.
func (o *outages) checkRuns(j *Journal, p int, lease journal.Lease) {
	got, rows := o.read(j, p, lease)
	want := map[core.RunID][]core.Entry{}
	for seq := uint64(1); seq <= lease.Last; seq++ {
		for _, e := range cutEntries(p, seq) {
			want[e.Run] = append(want[e.Run], e)
		}
		id, d := journaltest.RunID(cutRun(p, seq)), cutDefinition(seq)
		if row, ok := rows[id]; ok && (row.Workflow != d.Name || row.Definition != d.ID) {
			o.Errorf("run %s is one of workflow %s, %s", id, row.Workflow, row.Definition)
		}
	}
	for id := range want {
		if !bytes.Equal(encodedEntries(got[id]), encodedEntries(want[id])) {
			o.Errorf("run %s has %d entries, want %d; %d batches were acknowledged, and %d are there",
				id, len(got[id]), len(want[id]), o.acknowledged[p], lease.Last)
		}
	}
	if len(got) != len(want) {
		o.Errorf("partition %d has %d runs, want %d", p, len(got), len(want))
	}
}

// read reads the runs of a partition, with their rows.
func (o *outages) read(
	j *Journal, p int, lease journal.Lease,
) (map[core.RunID][]core.Entry, map[core.RunID]journal.RunRow) {
	entries, rows := map[core.RunID][]core.Entry{}, map[core.RunID]journal.RunRow{}
	page, err := j.List(o.Context(), journal.Query{Limit: 100_000})
	if err != nil {
		o.Error(err)
	}
	for _, row := range page.Runs {
		if row.Partition != p {
			continue
		}
		h, err := j.History(o.Context(), row.ID)
		if err != nil || h.Applied != row.Applied {
			o.Errorf("run %s: history up to batch %d, row up to batch %d: %v", row.ID, h.Applied, row.Applied, err)
		}
		if _, err := j.Definition(o.Context(), row.Definition); err != nil {
			o.Error(err)
		}
		entries[row.ID], rows[row.ID] = h.Entries, row
	}
	err = j.Tail(o.Context(), p, lease.Through, func(seq uint64, batch []core.Entry) error {
		for _, e := range batch {
			if seq > rows[e.Run].Applied {
				entries[e.Run] = append(entries[e.Run], e)
			}
		}
		return nil
	})
	if err != nil {
		o.Error(err)
	}
	return entries, rows
}

func encodedEntries(entries []core.Entry) (b []byte) {
	for i := range entries {
		b = core.AppendEntry(b, &entries[i])
	}
	return b
}

// checkMessages checks that each message to a partition is in its inbox, or was taken.
func (o *outages) checkMessages(j *Journal, to int, leases [cutPartitions]journal.Lease) {
	in, err := j.Inbox(o.Context(), to, leases[to].Taken, 100_000)
	if err != nil {
		o.Error(err)
	}
	from := (to + cutPartitions - 1) % cutPartitions
	next := leases[to].Taken[from]
	for _, m := range in {
		next = max(next, m.Seq)
	}
	sent := leases[from].Last / 5 * 5
	if want := journal.MessageSeq(sent, 0); next != want {
		o.Errorf("the messages of partition %d to %d end with %d, want %d", from, to, next, want)
	}
	for i, m := range in {
		if i > 0 && m.Seq != in[i-1].Seq+journal.MessageSeq(5, 0) {
			o.Errorf("message %d follows message %d", m.Seq, in[i-1].Seq)
		}
	}
}
