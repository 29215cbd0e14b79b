// Package history makes the history of a Temporal workflow of the entries of its run. Nothing of that history is
// stored: it is a fold, and each event comes from one record, or from one command of one answer of the workflow's
// worker. The rules:
//
//   - What happens while a worker has a workflow task stands behind the commands of its answer. An answer says how many
//     entries its worker knew, so the order does not depend on who reads when.
//   - A workflow task is scheduled right behind the first event that it is about.
//   - Each command is one event, in the order of the commands: a worker knows the ids of its own events beforehand.
//   - The attempts of an activity are no events. When the activity ends, two events tell its last attempt and its end.
//   - Of workflow tasks that fail one after the other, the first one is told.
//
// What an entry has become may never change, since workers replay the history. So a change of this package needs a
// record that says so.
package history
