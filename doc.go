// Package pawl runs Go functions durably: a workflow survives crashes and deploys, waits for a minute or a month, and
// says exactly how long everything may take and how often it is tried.
//
//	eng, err := pawl.Open(ctx, pawl.Config{Database: "sqlite:shop.db"})
//	fulfil := pawl.Define("fulfil-order", func(ctx pawl.Context, in Order) (Receipt, error) {
//		txn, err := pawl.Step(ctx, "charge", charge, pawl.Retry("exponential(5, 1s)"), pawl.Timeout("5m"))
//		…
//	}, pawl.RunTimeout("30m"), pawl.OnFailure(refund))
//	run, err := fulfil.Start(ctx, eng, "order-42", Order{…})
//	receipt, err := run.Result(ctx)
//
// The database's package is imported for its side effect, as with database/sql:
//
//	import _ "github.com/pawl-dev/pawl/journal/sqlite"
//
// # The model
//
// A workflow's function is its body. All I/O of the body happens in steps: [Step] runs a function and records its
// result, [Sleep], [Event.Wait], [Child] and [Handler.Call] wait for something and record what came. When the process
// dies, or when the body waits for long, for a step that runs or for something else, its goroutine is gone; later the
// body is called again from its beginning, and each step that is recorded returns its result at once. So
//
//   - a step's function runs until it has succeeded, and never again after that. An attempt that a crash interrupts is
//     made again: give its IdempotencyKey ([Attempt]) to what must not happen twice;
//   - the body itself must do the same each time: clocks, random numbers and all I/O belong in steps, or come
//     from [Now], [Random] and [UUID]. Deferred functions run each time the body is stopped;
//   - a body that is changed while runs are open must keep the order of its steps, or branch by [Version].
//     A change that does not fit is found: the run waits, and a [ChangedError] shows what is recorded and what
//     the code asks for;
//   - between two steps a body may compute for 10 seconds ([TaskTimeout]). If it takes longer, the run waits, and a
//     [TaskTimeoutError] says where the body is.
//
// Steps are told apart by name and occurrence: the second "charge" of a body is "charge#2". A body does one thing at a
// time; to do several use [Async], [Go] and [Map], whose parts have keys of their own. Branches take turns, in an order
// that is recorded, so they may share variables of the body. Steps run in parallel.
//
// # Time
//
// Four things have limits:
//
//   - a step: [Timeout], from its scheduling on, with all its attempts; [WorkTimeout], the same without the time for
//     which the first attempt waits for its turn;
//   - an attempt of a step: [AttemptTimeout], which is retried; [QueueTimeout] until it begins, [HeartbeatTimeout]
//     while it says nothing;
//   - a run: [RunTimeout]; with its retries and continuations [ExecutionTimeout], or [RunDeadline] as an instant. The
//     body has [TaskTimeout] between two steps, and [CompensationTimeout] after its run was cancelled or has expired;
//   - a wait for an event or an update: [Within].
//
// A limit becomes an instant that is stored when its clock starts, and survives everything. A step has no more time
// than its run, nor a child run than its parent. The deadline of a step's context shows how much time is left.
//
// Policies in a definition ([Defaults], [ForStep], hooks) are checked when it is defined, a [MustPolicy] when the
// program starts, and options in a body when the body reaches them: an option that makes no sense is [ErrInvalid] and
// fails the run.
//
// # Talking to a run
//
// A [State] says what a run is at: its body sets it, others read it. An [Event] goes to a run without an answer, and is
// kept until the body waits for it. An [Update] has an answer: the body validates it, handles it and answers it once.
//
// # Outcomes
//
// A step returns its value; or its own error, which errors.As finds with its type and data where [RegisterError] knows
// it; or what the engine decided: [ErrTimedOut], [ErrRetriesExhausted], [ErrDeadlineExceeded] of an event wait,
// [ErrCancelled]. errors.As also finds the last failure that came from the step itself. All this is the same before and
// after a restart.
//
// Package outbox starts runs and sends events within a transaction of your own database. Package pawltest tests
// workflows in virtual time. The command pawlvet, a tool for go vet, finds what a body must not do.
package pawl
