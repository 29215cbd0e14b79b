// Package engine runs workflows durably: it feeds inputs to the state machine of package core, makes what happened
// durable in a journal, and only then lets it have effects.
//
//	callers, workers ──► inbox ──► Partition: core.Advance ──► open batch ──► Journal.Append
//	                                   ▲     (memory, ahead        │               │ durable
//	             due timers ───────────┘      of the disk)         │               ▼
//	             children, chains, matches ◄── same batch ─────────┘   dispatches, answers, watchers
//
// [Partition] is all of that without goroutines and without a clock: given the same calls and instants it does the same,
// so the simulation drives it in virtual time. [Engine] is a loop around one partition and alone reads a clock.
//
// While one batch is being synced the next is computed. Everything that leaves the partition, an attempt handed to a
// worker or an answer, waits until the batch it follows from is durable. If an append fails the partition forgets what
// it holds in memory and reads it from the journal again.
//
// The view (tables for people, and what runs are loaded from) is written behind: each batch carries rows of some runs
// whose entries the view lacks. A run that is idle and whose row is written leaves memory; a sleeping run costs nothing
// but its row. Runs that are due soon are loaded ahead of time.
package engine
