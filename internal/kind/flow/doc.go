// Package flow is the kind of workflow that a flow document decides. It owns the one form in which a flow is stored
// with its runs, the [Bundle], so that whoever opens the journal carries them on: the command, a Go program, a
// server.
//
// Open journals also hold two older forms, which [Read] still understands: the kind "bundle" of the command, whose
// source is a Bundle already, and the kind "flow" of Go programs, whose source was the flow's file name and text
// alone.
package flow
