// Package core is the engine's state machine: one run of a workflow, pure.
//
// [Advance] takes a run's state, one input and the current instant; it returns the records of what happened and the
// effects that the shell must carry out. [Apply] folds one record into the state and is the only code that changes
// it, so folding a run's recorded entries gives the state that was in memory. There is no clock, goroutine, channel,
// I/O or randomness here: instants are arguments, random numbers are hashes of (run, step, attempt).
//
// The life of a step:
//
//	          Schedule                Started               Ended: verdict
//	(decider) ───────► scheduled ───────────► running ──────────────────► succeeded | failed | timed_out | cancelled
//	                       ▲                                   │ retry
//	                       └────────── backing_off ◄───────────┘
//
// A run has one wake time, [Run.Wake]: the earliest instant at which its policies want something. The shell delivers
// a [Tick] then; nothing else in a run depends on time passing.
package core
