// Package lease runs the bodies of Go workflows in separate processes. The [Keeper] is in the process with the engine,
// which sees bodies and workers in it. A [Holder] is in a process that has the functions: there a body.Host and a
// worker.Pool see an engine in it. Between the two go the calls of these seams, in order, each once.
//
// A lease is one call of a run's body: it begins with all records, and the decisions that come with its number are
// taken until it ends. It ends with the call of the body, with the run, when its holder leaves or is silent, and with
// the server's process. Leases are not stored: the next one begins with the replay, which makes everything right.
package lease
