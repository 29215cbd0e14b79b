// Package remote is about workers in other processes. [Queues] are these workers as an engine sees them: they serve
// task queues whose tasks go to whoever asks for them. [Worker] is such a worker: it asks for tasks and executes them
// in a pool, as workers of the engine's process do.
//
//	engine ─ Matcher ─► Queues ◄── HTTP ──► Worker ─ worker.Pool ─► executors
//
// An attempt starts when a worker has asked for one, not before, so none of its limits runs while nobody has room. From
// then on its limits alone notice a worker that has vanished. The engine may be started again meanwhile: what is known
// of an attempt is in its journal, the number that its worker shows with each report included.
package remote
