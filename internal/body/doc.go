// Package body runs the bodies of Go workflows: the functions that decide what a run does, outside its state machine.
//
// A [Session] is one call of a run's body. It is synchronous: it has no goroutine, no clock and no lock. The shell
// calls its methods for what happens (news of the run, a branch asks for a step or waits, a timer fires, the engine
// answers), and takes from [Session.Ready] what is to be done: inputs for the engine, branches to wake, timers to set.
//
//	news, ends, answers ──► Session ──► Ready: decisions for the engine, branches to wake, timers
//	ask, wait, end ───────►    ▲
//	                           └── the same from a unit test, line by line
//
// A [Host] is the shell: it keeps a session for each run with something to do, under a lock of its own, and carries out
// what is ready before it releases the lock. A [Thread] is a branch of a body as the code in it sees it: its calls
// block. Goroutines and timers come from a [Shell], so that the simulation runs hosts and threads in virtual time.
//
// A branch is a line of execution in a body: the body itself, or what it begins with pawl.Go and pawl.Map. One branch
// at a time has the turn, in an order that follows from the order in which ends are recorded: see order.go. While all
// branches wait, the session is idle. Their decisions until then go to the engine in one commit, together with the
// ends of the attempts that woke them.
package body
