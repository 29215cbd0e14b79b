// Package stevora translates workflow definitions of Stevora into flows.
//
// A definition is a list that is walked from its beginning, with jumps. Its steps become steps that need the one
// before, each with a condition that tells whether the walk reaches it. A file of handlers defines what a handler is
// here. The values that steps write into the run's state are put together for later steps.
package stevora
