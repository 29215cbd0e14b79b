// Package service implements [api.Service]: [Embedded] over an engine in this process, and [File] over a database that
// another process may be writing.
//
// Both read runs in one way: they fold a run's entries into a trail, and take snapshots and events from it. The trail
// of a run that somebody watches is kept, so that each event and each snapshot costs only the entries that are new.
//
// A service does not know how a definition is executed. Whoever assembles it says how a stored definition is read,
// see [Workflow].
package service
