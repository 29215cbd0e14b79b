// Package sqlite is the journal in one SQLite file, for a single machine: pure Go, no server.
//
// The file is in WAL mode with synchronous=FULL, so a batch that Append has acknowledged survives a power cut. Only one
// process can write it: a lock file next to it makes sure of that, and names the process. Others may read the file, see
// [OpenReadOnly].
//
// # The file
//
//	meta         the format's version, and how many partitions there are
//	partitions   who owns a partition, and the epoch that fences older owners
//	journal      one row a batch: id = partition << 40 | sequence number; append-only, trimmed from the front
//	feeds        positions of named consumers of all entries
//	definitions  workflow definitions, by the number that runs refer to
//	names        workflow, worker and outcome names, by the number that rows refer to
//	runs_data    one row a run       ┐
//	steps_data   one row a step      │ the view: written later, in the commits of other batches
//	attempts_data  one row an attempt│
//	ended_data   one row a run with the rows of its steps and attempts, where it had ended before they were written
//	history      a run's entries     ┘
//	large_entries  entries of 32 KiB or more, once for the journal and the history
//	inbox        what partitions have sent each other and the receivers have not taken yet
//	taken        by partition and sender: the last message that was taken
//	documents    values beside the runs, such as webhooks and their deliveries
//
// The tables keep instants as microseconds, phases as numbers and ids as 16 bytes, because a file of a million sleeping
// runs should be small. The views runs, steps and attempts show them as a person reads them:
//
//	sqlite3 pawl.db "SELECT id, workflow, phase, wake FROM runs ORDER BY id DESC LIMIT 20"
//
// The format has a version number. A change that the release before cannot read gets the next number, and a
// migration in schema.go.
package sqlite
