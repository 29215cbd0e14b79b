// Package sim simulates whole engines in virtual time. Each seed makes one universe. After every step of it the checker
// tests what must always hold.
//
// A universe contains:
//   - workflows, as flow files and as bodies;
//   - clients that start runs and operate on them;
//   - workers that are slow, fail, hang, never report or report twice;
//   - a disk that fills up, loses acknowledgements, reads slowly or not at all, and gets a second owner;
//   - clocks that jump;
//   - processes that die before, during or after a commit;
//   - processes whose partitions share slots and limits, and some in which runs rest;
//   - machines of a cluster, which take, give back and lose partitions.
//
// The engine is the real one: engine.Partition over journal/memory. No code in a universe reads a clock, uses random
// numbers of its own or depends on the order of a map. So the same seed always makes the same universe, batch by batch.
//
//	clients, workers, faults ──► agenda (virtual time) ──► engine.Partition ──► journal/memory
//	                                                                                │ what is durable
//	  checks after every step ◄── checker: own model of attempts and deadlines ◄────┘
//
// The checks do not use the engine's logic. The checker reads what became durable and applies it to models of its own.
// It also knows what the workers really execute and what callers were really told. See [Run].
//
// In a cluster, the real member decides what a machine takes and gives back, and the real tenure when an owner stops.
// Machines come, drain and die, stand still past their leases, and lose the database. Signs of life and the table of
// machines are in virtual time, by the database's clock.
//
// A body is a program: a tree of steps and branches. Like a Go function, it decides from recorded results only. The
// real runtime, body.Host, executes it. The agenda resumes its goroutines and fires its timers. Branches may compute
// for a long time, or for ever. A body may be unwound, refused or stuck. The end of an attempt may wait for the body's
// next decision. An append may fail, or an operator may restart a step, while decisions that depend on it are on their
// way. To know what a body must decide, the checker walks through the same program with code of its own.
package sim
