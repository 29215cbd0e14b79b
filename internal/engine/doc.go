// Package engine runs workflows durably. It gives inputs to the state machine of package core, saves what happened in a
// journal, and carries out the effects only after that.
//
//	callers, workers ──► queue ──► Partition: core.Advance ──► open batch ──► Journal.Append
//	                                   ▲     (memory, ahead        │               │ durable
//	             due wake times ───────┘      of the disk)         │               ▼
//	             children, chains, task starts ◄── same batch ─────┘   dispatches, answers, watchers
//
// [Partition] does all of that without goroutines and without a clock. With the same calls and instants it always does
// the same. So the simulation can drive it in virtual time. [Engine] is a loop around each partition. Only the loop
// reads a clock.
//
// While one batch is being synced, the partition computes the next one. Everything that leaves the partition, such as a
// task for a worker or an answer, waits until the batches that it is based on are durable. If an append fails, the
// partition forgets its memory and reads it from the journal again.
//
// The view consists of the tables for people, from which runs are also loaded. It is written later than the entries:
// each batch carries rows of some runs whose rows are out of date. A run that is idle and whose rows are written leaves
// memory. So a sleeping run costs nothing but its rows. Runs that are due soon are loaded ahead of time.
package engine
