// Package sim runs whole engines through seeded lives in virtual time and checks, after every step, what must always
// hold.
//
// A universe is everything that one seed makes: workflows as flow files and as bodies that decide outside the machine,
// clients that start runs and operate on them, workers that are slow, fail, hang, go silent and repeat themselves, a disk
// that fills up, loses acknowledgements and is taken over by a second owner, clocks that jump, and a process that dies at
// any boundary of a commit. The engine in it is the real one, engine.Partition over journal/memory. Nothing in a universe
// reads a clock, draws from another source of chance than the seed's or depends on the order of a map: the same seed is the
// same universe, batch by batch.
//
//	clients, workers, faults ──► agenda (virtual time) ──► engine.Partition ──► journal/memory
//	                                                                                │ what is durable
//	      checks after every step ◄── book: own model of attempts and deadlines ◄───┘
//
// What is checked does not lean on the engine's own logic: a book keeps what became durable, folds it into a model of
// its own, and knows what the workers really execute and what callers were really told. See [Run].
//
// A body is a program, a tree of steps and branches: what it comes to is a function of what is recorded, as with a Go
// function. It is executed by the real runtime, body.Host, with goroutines that the agenda resumes and timers in virtual
// time. Branches compute for long or for ever, calls are unwound, refused or stuck, ends of attempts wait for what the
// body makes of them, and decisions are on their way while an append fails or an operator restarts what they rest on.
// What the checks expect of a body is a walk of their own through the same program, over what is durable.
package sim
