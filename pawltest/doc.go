// Package pawltest tests workflows in virtual time: thirty days pass in a millisecond, and every run is the same.
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
// [Env.Restart] is a deploy, [Env.Crash] the death of the process. [Replay] holds new code against histories of runs that were
// recorded before.
//
// [Run] is [testing/synctest.Test] with an engine on a journal in memory: the engine's clock, its timers and those of the
// code under test are the bubble's, and time passes when all goroutines wait. What holds for synctest holds here: steps
// that wait for the network or another process hold time up; use [Env.Fake] for them.
package pawltest
