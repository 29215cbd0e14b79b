// Package pawltest tests workflows in virtual time. Thirty days pass in a millisecond, and the same test always gives
// the same result.
//
//	func TestRefund(t *testing.T) {
//		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
//			e.Fake("charge", func(context.Context, pawl.AttemptInfo) (any, error) { return "txn-1", nil })
//			run, err := fulfil.Start(t.Context(), e, "order-1", Order{})
//			…
//			e.Skip(7 * 24 * time.Hour)
//			e.WantAttempts("order-1", "charge", 1)
//		})
//	}
//
// [Env.Restart] does what a deploy does, [Env.Crash] what the death of the process does. [Replay] checks new code
// against recorded histories of earlier runs.
//
// [Run] is [testing/synctest.Test] with an engine on a journal in memory. The clock and the timers of the engine and of
// the code under test belong to the synctest bubble, where time passes only while all goroutines wait. A step that
// waits for the network or for another process therefore stops the time; use [Env.Fake] for it.
package pawltest
