// Package api defines what callers can do with runs: one interface, [Service], the values that cross it, and the one
// table of error codes. The command line, the HTTP server and its client use it.
//
// The values are made for JSON. Instants are RFC 3339 in UTC with microseconds. Lengths of time have the grammar of
// flow files ("1m30s"). Payloads are embedded as JSON. Empty fields are left out.
//
// A run can be named by its run id, by its workflow id (which means the newest run that has it), by the unique
// beginning of its run id (six characters or more), or by @last, the newest run that is not a child.
package api
