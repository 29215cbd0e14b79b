// Package engine runs workflows durably. It gives inputs to the state machine of package core, saves what happened in a
// journal, and carries out the effects only after that.
//
//	callers, workers ──► queue ──► Partition: core.Advance ──► open batch ──► Journal.Append
//	                                   ▲     (memory, ahead        │               │ durable
//	             due wake times ───────┘      of the disk)         │               ▼
//	             children, chains, task starts ◄── same batch ─────┘   dispatches, answers, watchers
//
// [Partition] does all of that without goroutines and without a clock. With the same calls and instants it always does
// the same. So the simulation can drive it in virtual time. It is made of parts with a state of their own: the runs in
// memory (residents), the attempts (tasks), the runs of queues (admissions), the batches (pipeline), what other runs
// send (messages, reception, children), what callers start (starts), who waits and watches (audience), and the feeds.
// The parts share a base, and know the partition only as the heart that advances runs.
//
// A driver is the loop around one partition, and only the loop reads a clock. [Engine] stands in front of the drivers
// of all partitions, be it one or many, and gives each [Call] to the driver of its run. Parts that do not know
// partitions are in other packages: slots counts the workers of all partitions, limit enforces the limits of queues and
// services, and clock gives the time.
//
// While one batch is being synced, the partition computes the next one. Everything that leaves the partition, such as a
// task for a worker or an answer, waits until the batches that it is based on are durable. If an append fails, the
// partition forgets its memory and reads it from the journal again.
//
// The view consists of the tables for people, from which runs are also loaded. It is written later than the entries:
// each batch carries rows of some runs whose rows are out of date. A run that is idle and whose rows are written leaves
// memory. So a sleeping run costs nothing but its rows. Runs that are due soon are loaded ahead of time.
package engine
