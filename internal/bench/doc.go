// Package bench measures Pawl on the embedded engine with a SQLite file that syncs every commit. Each row of the table
// is one kind of work; what the disk alone costs, the floor, is measured beside each row, since a durable engine can be
// no faster than that.
//
// Runs are real: flow documents that are parsed and compiled, started and awaited by client goroutines, with tasks that
// go through the worker pool. Rates are of a closed loop, after a warm-up, so that they count what callers have seen
// finished.
package bench
