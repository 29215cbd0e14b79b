// Package flow is the kind of workflow that a flow document decides. It owns the one form in which a flow is stored
// with its runs, the [Bundle], so that whoever opens the journal carries them on: the command, a Go program, a server.
package flow
