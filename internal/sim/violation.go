package sim

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
)

// Invariant is something that must always hold. The comment of the package has the numbered ones in full.
type Invariant string

// The invariants.
const (
	Acknowledged  Invariant = "1: acknowledged means journaled; nothing acknowledged is lost"
	TerminalOnce  Invariant = "2: a run's terminal phase is written once and never changes"
	OneAttempt    Invariant = "3: a step has at most one live attempt; attempt numbers grow by one"
	FixedDeadline Invariant = "4: a stored deadline changes only by a recorded operation"
	NotAfter      Invariant = "5: no attempt starts at or after its effective deadline"
	Counted       Invariant = "6: counted attempts are at most maxAttempts"
	NoHang        Invariant = "7: nothing hangs for ever by mistake"
	Replay        Invariant = "8: replaying the journal gives the state in memory; the view equals the journal"
	Fencing       Invariant = "9: of two owners only the newer one's appends succeed"
	Events        Invariant = "10: an event is kept once and taken once in its chain, and stays with it until then"
	Decided       Invariant = "12: a body called again makes the recorded decisions in order; nothing else is recorded"
	Talk          Invariant = "11: an accepted update is answered once in its chain; the state is the last recorded one"
	Delivered     Invariant = "13: what a run does to one elsewhere is saved with its cause and happens once, in order"
	Foretold      Invariant = "18: what a run says of its next attempt and of its end comes true if nobody intervenes"

	EndsOnce  Invariant = "an attempt ends exactly once, by its report or by its expiry"
	Finished  Invariant = "a finished step is not touched again"
	DueOrder  Invariant = "timers fire in due order, and none before it is due or long after"
	Unique    Invariant = "one open run per workflow id, one run per idempotency key"
	Slots     Invariant = "no more attempts run than there are slots"
	Limited   Invariant = "14: no more attempts run and start than a service's limits allow; one probe goes first"
	Ruled     Invariant = "a step of a flow begins by its rule; with failFast nothing begins after a failure"
	Spread    Invariant = "a machine of a cluster gives back no more than what is above its share"
	Rested    Invariant = "16: to a run that rests nothing happens but what callers and other runs do"
	Recorded  Invariant = "records follow one another as the contract says"
	Liveness  Invariant = "when the faults have ended every run ends"
	Untouched Invariant = "what a caller was told was not saved is not in the journal"
)

// Violation is an invariant that did not hold. Its error contains the run's history and the command that repeats the
// seed.
type Violation struct {
	Invariant Invariant
	Seed      uint64
	Step      int
	At        core.Time
	Run       core.RunID // zero: the violation is not about one run
	Msg       string
	Story     string // the run's durable history, one line for each record
}

func (v *Violation) Error() string {
	s := fmt.Sprintf("seed %d, step %d, at %s (%s): %s\ninvariant %s\n",
		v.Seed, v.Step, offset(v.At), v.At, v.Msg, v.Invariant)
	if v.Story != "" {
		s += v.Story
	}
	return s + fmt.Sprintf("again: go test ./internal/sim -run 'TestSeeds$' -seed=%d -v", v.Seed)
}
