// Package temporal lets workers and clients that are written with Temporal's SDKs work with Pawl. It is a kind of
// workflows, whose runs their workers decide, and a server of Temporal's protocol.
//
//	history     the history of a workflow, as a fold of the entries of its run
//	convert     options, failures and payloads
//	tasks       workflow tasks: who gets them, and what becomes of the answers
//	visibility  the lists of workflows, and their filters
//	activities  the attempts of activities, for the engine workers in other processes
//
// Activities, timers, retries and timeouts are the engine's own. What is not supported is refused as Unimplemented, by
// the name of the method.
package temporal
