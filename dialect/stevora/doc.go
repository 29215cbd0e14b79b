// Package stevora translates workflow definitions of Stevora into flows.
//
// A definition is a list that is walked from its beginning, with jumps; its steps become steps that need the one
// before, each with a condition that says whether the walk comes by. What a handler is here says a file of handlers.
// What steps write into the run's state is put together for those that come after.
package stevora
