// Package secret provides what a flow must not contain itself: secrets, and the environment of the process that
// executes its steps.
//
// An expression ${{ secrets.token }} becomes a placeholder in the task that a worker gets, never the value. The worker
// inserts the value just before it uses it ([Placeholders]), so that no journal, history, log or event can contain it.
// What comes back from a process or a server may repeat the value; a [Redactor] takes it out.
package secret
