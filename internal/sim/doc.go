// Package sim simulates whole engines in virtual time. Each seed makes one universe. After every step of it the checker
// tests the invariants.
//
// A universe contains:
//   - workflows, as flow files and as bodies;
//   - clients that start runs and operate on them;
//   - workers that are slow, fail, hang, never report or report twice;
//   - a disk that fills up, loses acknowledgements, reads slowly or not at all, and gets a second owner;
//   - clocks that jump;
//   - processes that die before, during or after a commit;
//   - processes whose partitions share slots and limits, and some in which runs rest;
//   - machines of a cluster, which take, give back and lose partitions;
//   - workers of Temporal's SDKs, which replay the histories that they are given, and clients that reset their runs.
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
// Machines come, drain and die, are stopped past their leases, and lose the database. Signs of life and the table of
// machines are in virtual time, by the database's clock.
//
// A body is a program: a tree of steps and branches. Like a Go function, it decides from recorded results only. The
// real runtime, body.Host, executes it. The agenda resumes its goroutines and fires its timers. Branches may compute
// for a long time, or forever. A body may be unwound, refused or stuck. The end of an attempt may wait for the body's
// next decision. An append may fail, or an operator may restart a step, while decisions that depend on it are on their
// way. To know what a body must decide, the checker walks through the same program with code of its own.
//
// The invariants, by the numbers that a violation names:
//
//  1. What was acknowledged is in the journal, and nothing acknowledged is lost.
//  2. The terminal phase of a run is written once.
//  3. A step has at most one live attempt. Attempt numbers grow by one.
//  4. A stored deadline changes only by a recorded operation.
//  5. No attempt starts at or after its effective deadline.
//  6. Counted attempts never exceed maxAttempts of the policy that allowed them.
//  7. Nothing hangs by mistake. Every step that backs off knows the instant of its next attempt. Every open run has a
//     wake time, a live attempt, an outside event to wait for, or a body that is about to decide.
//  8. Replaying the journal gives the state in memory, and the view equals the journal up to its watermark.
//  9. Of two owners of a partition, only the newer one's appends succeed.
//  10. An event is kept once and taken once in its chain of runs. It stays with the chain until it is taken.
//  11. An update that a body has accepted is answered once in its chain of runs. The published state is the value that
//     was recorded last.
//  12. A body that is called again makes the recorded decisions, those that begin branches included, in their recorded
//     order. Nothing else is recorded before that, also after an operator's retry: it drops what the body decided when
//     it had seen the failure, and only that. After the run's stop only detached steps begin, in a cancelled scope
//     none. No run whose body has decided something is cancelled or timed out without its body.
//  13. What a run does to one in another partition is saved with its cause, and happens there once, in order. What is
//     done to a run that is set aside happens when it is taken up again. A child run names its family and how many runs
//     are above it. In one process no more child runs of a family begin than may be open.
//  14. In one process no more attempts run at once, and no more start in any time of a rate's length, than the limits
//     of their queue and service allow. While a breaker is open, nothing starts but one probe after each pause. Nothing
//     is held for ever.
//  15. In one process no more runs of a queue have begun and not ended, and no more begin in any time of a rate's
//     length, than its limits allow, however often it was restarted. Runs that come with a partition count, also above
//     the limit: then nothing begins until fewer are left. Of two that wait with the same key, the one with the higher
//     priority goes first, then the older one. Where keys take turns, a run that leaves without having begun uses
//     none.
//  16. A resting run changes only through callers and other runs.
//  17. The history of a run that an SDK decides for has no gaps in its ids and only grows, and the entries always fold
//     to it. A worker that replays it decides the same again. Each command of an answer has its event, where the
//     worker has foreseen it. Nothing is told twice. An answer ends the run only if it has heard all.
//  18. A forecast is kept. What a run says is written down after each entry: which end comes first and when, and what
//     follows if an attempt fails after a time. That end is not missed, and no limit of the run or of a hook ends it
//     sooner. An attempt that fails is tried again, or is the last one, as was said, and the next one starts when it
//     was said, or later if it shares a limit with others. Operations change what was said. The words that are kept
//     with a run's row are those of its state.
//
// The other ones of type [Invariant] have no number.
package sim
