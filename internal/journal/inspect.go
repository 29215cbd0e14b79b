package journal

import "context"

// Stored is the view's data of a run, in one snapshot.
type Stored struct {
	Row      RunRow
	History  History // entries of later batches are in the tail
	Broken   error   // why the history cannot be read; nil if it can
	Steps    []StepRow
	Attempts []AttemptRow
}

// Inspection is the result of checking a storage that a server keeps.
type Inspection struct {
	Server string `json:"server"` // its version
	Schema int    `json:"schema"` // the version of the tables
	Bytes  int64  `json:"bytes"`

	Runs, Open, Steps, Attempts int64
	Pieces, Batches, Entries    int64 // pieces of history, batches in the journal, entries in both
	Definitions                 int64
	Messages                    int64 // the messages between partitions that are not taken yet
	Partitions                  []PartitionState

	// Problems lists the problems, as sentences. At most a hundred are kept.
	Problems []string `json:"problems,omitempty"`
}

// PartitionState is the state of a partition.
type PartitionState struct {
	Partition int    `json:"partition"`
	Owner     string `json:"owner"` // empty: it was given back
	Alive     bool   `json:"alive"` // the lease has not ended
	Epoch     uint64 `json:"epoch"`
	First     uint64 `json:"first"`   // the oldest batch in the journal; 0 if there is none
	Last      uint64 `json:"last"`    // the newest one
	Through   uint64 `json:"through"` // the view contains every batch up to here
}

// Inspected is a journal that can be examined while others use it.
type Inspected interface {
	Journal
	// Inspect decodes every batch, every piece of history and every message, and compares them with the watermarks. It
	// returns an error only if the storage cannot be examined at all.
	Inspect(ctx context.Context) (*Inspection, error)
	// EachRun calls fn with every run in the view, the oldest first. It stops at fn's first error.
	EachRun(ctx context.Context, fn func(Stored) error) error
}
