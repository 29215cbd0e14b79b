// Package activities gives the attempts of Temporal's activities to the workers that ask for them, and takes what these
// report. For an engine they are workers in other processes, on queues of their own.
//
// A report counts if it shows the secret of the attempt, which is recorded. So it counts after a restart, too. An
// attempt that has ended is over at once: its worker hears of that with its next heartbeat, and the next attempt does
// not wait for it, as in Temporal itself.
package activities
