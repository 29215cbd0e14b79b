// Package postgres is the journal in a schema of a PostgreSQL database, for several processes on several machines.
// Package journal/postgres describes how an address is written.
//
// # Appends
//
// A batch is one statement, so it costs one round trip, and all of it is written or nothing. The statement changes the
// partition's row only if it has the owner's epoch and the batch before this one; everything else in the statement
// depends on that row. So an owner that was replaced cannot write, whatever it assumes. If the connection is lost
// before the answer comes, Append checks what happened to the batch: each append has a mark, and the partition's row
// has the mark of the last one.
//
// # Connections
//
// No statement depends on an earlier one of its connection. So connections may come from PgBouncer in transaction mode.
// Where it does not know prepared statements (before 1.21), the journal finds out and does without. There are no
// advisory locks, and there is no extension. Only the relay of callers' messages listens, on connections beside the
// pool; where a pooler hides announcements, it looks once a second.
//
// # Several databases
//
// Some partitions may be kept by other databases, the stores. Open returns one journal over all of them: calls for a
// partition go to its store (routed.go), calls for all go to each (merged.go). placement.go has the map; move.go
// describes how a partition is moved.
//
// # The schema
//
//	meta         how many partitions there are, and the oldest version of the schema that code has to know
//	partitions   who owns a partition and until when, its epoch, its last batch, and the view's watermark
//	journal      one row a batch, append-only, trimmed from the front
//	feeds        positions of named consumers of all entries
//	definitions  workflow definitions
//	runs_data    one row a run          ┐
//	steps_data   one row a step         │ the view: written later, in the statements of other batches.
//	attempts_data  one row an attempt   │ A new run's first steps and entries may stand in its own row (fold.go)
//	history      a run's entries        ┘
//	inbox        what partitions have sent each other
//	taken        by partition and sender: the last message that was taken
//	documents    values beside the runs, such as webhooks
//	outbox       what callers have written within transactions of their own, until an engine has delivered it
//	nodes, pins  who shares the partitions, and which were moved to a node by hand
//	stores, placements  the other databases, and which partitions they keep or should keep
//
// Instants are microseconds since 1970 and phases are numbers. The view step_rows has all steps, wherever they are
// stored. The views runs, steps and attempts show them as a person reads them:
//
//	psql -c "SELECT id, workflow, phase, wake FROM pawl.runs ORDER BY id DESC LIMIT 20"
package postgres
