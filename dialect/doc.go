// Package dialect translates the timeouts and retries of other workflow systems, each in its own form and with its
// own defaults, into Pawl's policies. A translated policy needs nothing else to behave as its system's documentation
// says: one state machine runs them all.
//
// Every limit's Origin is the name of the field that set it, so a timeout is reported in the words of its author.
package dialect
