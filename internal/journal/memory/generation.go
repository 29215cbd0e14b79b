package memory

import (
	"context"

	"github.com/pawl-dev/pawl/internal/journal"
)

var _ journal.Remembering = (*Journal)(nil)

// Backup returns a copy of what is durable.
func (j *Journal) Backup() *Backup {
	j.mu.Lock()
	defer j.mu.Unlock()
	return &Backup{j.disk.clone()}
}

// Backup is a copy of a journal.
type Backup struct{ disk *disk }

// Restore makes the journal, with all who share it, what a backup has. It is for tests: nobody is told.
func (j *Journal) Restore(b *Backup) {
	j.mu.Lock()
	defer j.mu.Unlock()
	*j.disk = *b.disk.clone()
}

// Seen implements journal.Remembering.
func (j *Journal) Seen() journal.Seen { return j.notes.Seen() }

// Learn implements journal.Remembering.
func (j *Journal) Learn(others ...journal.Seen) { j.notes.Learn(others...) }

// stands returns what the disk shows.
func (j *Journal) stands() journal.Seen {
	found := journal.Seen{Generation: j.disk.generation, Partitions: map[int]journal.Stand{}}
	for n := range j.count {
		found.Partitions[n] = journal.Stand{}
	}
	for n, p := range j.disk.partitions {
		found.Partitions[n] = journal.Stand{Epoch: p.epoch, Last: p.last}
	}
	return found
}

// current returns an error if the disk lacks something of a partition that was seen.
func (j *Journal) current(n int) error {
	known, found := j.notes.Seen(), j.stands()
	found.Partitions = map[int]journal.Stand{n: found.Partitions[n]}
	if err := known.Check(&found); err != nil {
		return err
	}
	j.notes.Found(found)
	return nil
}

// note adds where a partition stands.
func (j *Journal) note(n int, p *partition) {
	j.notes.Note(n, journal.Stand{Epoch: p.epoch, Last: p.last})
}

// Verify implements journal.Remembering.
func (j *Journal) Verify(ctx context.Context) error {
	found, err := j.Stands(ctx)
	if err != nil {
		return err
	}
	known := j.notes.Seen()
	return known.Check(&found)
}

// Stands implements journal.Remembering.
func (j *Journal) Stands(ctx context.Context) (journal.Seen, error) {
	if err := j.enter(ctx, OpPartitions, nil); err != nil {
		return journal.Seen{}, err
	}
	defer j.mu.Unlock()
	return j.stands(), nil
}

// Accept implements journal.Remembering.
func (j *Journal) Accept(ctx context.Context) (journal.Generation, error) {
	if err := j.enter(ctx, OpPutDocuments, nil); err != nil {
		return journal.Generation{}, err
	}
	defer j.mu.Unlock()
	known := j.notes.Seen()
	next := j.disk.generation
	next.Number = max(next.Number, known.Generation.Number)
	j.disk.generation = next.Next()
	j.notes.Forget(j.stands())
	return j.disk.generation, nil
}
