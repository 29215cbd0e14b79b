// Command bench measures the embedded engine with a SQLite file that syncs every commit. Each row of the table is one
// kind of work. The cost of the disk alone, the floor, is measured with each row: a durable engine cannot be faster.
//
// The runs are real. Flow documents are parsed and compiled, client goroutines start the runs and wait for the results,
// and tasks go through the worker pool. Rates are measured in a closed loop after a warm-up, so they count only runs
// whose end a client has seen.
package main
