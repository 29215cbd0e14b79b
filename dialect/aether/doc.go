// Package aether translates workflows of the Aether workflow engine into flows.
//
// The tasks of the entrypoint become steps; a task that calls a dag becomes a child flow, one that calls a loop a
// forEach or, with a condition, a child flow that starts itself again, and one with phaseConditions a child flow that
// judges it. A file of handlers defines what an executor is here. A task that suspends waits for the event
// resume.<task>, whose payload is its output.
package aether
