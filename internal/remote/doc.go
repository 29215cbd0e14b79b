// Package remote is about workers in other processes. [Queues] are these workers from the view of an engine: they serve
// task queues whose tasks go to the workers that ask for them. [Worker] is such a worker: it asks for tasks and
// executes them in a pool, as workers of the engine's process do.
//
//	engine ─ Matcher ─► Queues ◄── HTTP ──► Worker ─ worker.Pool ─► executors
//
// An attempt starts when a worker has asked for one, not before, so none of its limits runs while no worker has room.
// From then on its limits alone notice a worker that has vanished. The engine may be started again meanwhile: the data
// of an attempt is in its journal, including the number that its worker sends with each report.
package remote
