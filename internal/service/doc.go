// Package service implements [api.Service]: [Embedded] with an engine in this process, and [File] with a database
// that another process may be writing.
//
// Both read runs in the same way: they fold a run's entries into a trail, and take snapshots and events from it. The
// trail of a run that somebody watches is kept. So each event and each snapshot costs only the entries that are new.
//
// A service does not know how a definition is executed. Whoever makes the service gives it a function that reads
// stored definitions, see [Workflow].
package service
