// Package api says what callers do with runs, and in which form they see them: one interface, [Service], the values
// that cross it, and the one table of error codes. The command line, the HTTP server and its client speak it.
//
// The values are made for JSON. Instants are RFC 3339 in UTC with microseconds, lengths of time have the grammar of
// flow files ("1m30s"), payloads are JSON as they are. What is absent is left out.
//
// A run is named by its run id, by its workflow id (the newest run that has it), by the unique beginning of its run id
// (six characters or more), or by @last, the newest run that is not a child.
package api
