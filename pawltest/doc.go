// Package pawltest tests workflows in virtual time. Thirty days pass in a millisecond, and the same test always gives
// the same result.
//
//	func TestRefund(t *testing.T) {
//		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
//			pawltest.FakeStep[string](e, "charge").Fail(errBusy).Return("txn-1")
//			run, err := fulfil.Start(t.Context(), e, "order-1", Order{})
//			…
//			e.Skip(7 * 24 * time.Hour)
//			e.WantStarts("order-1", "charge", 0, time.Second)
//		}, fulfil)
//	}
//
// [FakeStep], [FakeCall] and [FakeChild] put fakes in the place of steps, handlers and workflows. A fake that is not
// used, or whose types do not fit, fails the test. [Env.Restart] does what a deploy does, [Env.Crash] what the death of
// the process does. [Env.Attempts] has the instants of a step's attempts. [Replay] checks new code against recorded
// histories of earlier runs, [ReplayDatabase] against the runs of a whole database, [ReplayServer] against those of a
// server.
//
// [RunNodes] has several nodes of a cluster, [RunServer] a server with processes that serve its workflows, each in
// memory.
//
// [Run] is [testing/synctest.Test] with an engine on a journal in memory. The clock and the timers of the engine and of
// the code under test belong to the synctest bubble, where time passes only while all goroutines wait. A step that
// waits for the network or for another process therefore stops the time; use a fake for it.
package pawltest
