package clock

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// Tenure determines until when an owner may go on, and when it gives its next sign of life. The driver of a partition
// keeps one. Only the journal knows whether the owner still owns the partition. But if the journal is shared, another
// process may get the partition as soon as the lease has ended. So an owner whose signs do not reach the journal stops
// before that, by a clock that cannot be set. Then no attempt runs twice at once.
type Tenure struct {
	term  time.Duration // how long the lease lasts without a sign of life; 0: without end
	ends  bool          // the tenure ends with the lease
	sent  time.Time     // when the last sign of life that the journal has was sent
	renew core.Time     // when to renew the lease; 0: never
}

// NewTenure returns the tenure of a lease that lasts a term without a sign of life; 0: without end. The journal was
// asked for it at the instant sent. shared means that another process may get the partition.
func NewTenure(term time.Duration, shared bool, sent time.Time, now core.Time) Tenure {
	t := Tenure{term: term, sent: sent, ends: shared && term > 0}
	t.Schedule(now)
	return t
}

// Answered notes that the journal has a sign of life, an append or a renewal. It reports whether the answer has come in
// time. If not, the process was stopped until the lease had ended. Then the effects of an append must not happen: the
// next owner may have read the batch, and makes its attempts again.
func (t *Tenure) Answered(sent, at time.Time) bool {
	t.sent = sent
	return !t.Ended(at)
}

// Schedule plans the next renewal: when a third of the term has passed without an append.
func (t *Tenure) Schedule(now core.Time) {
	if t.term > 0 {
		t.renew = now.Add(t.term / 3)
	}
}

// Renew returns when to renew the lease; zero: never.
func (t *Tenure) Renew() core.Time { return t.renew }

// Left returns how long the owner may go on, and false if that is without end. The lease began when the journal got the
// sign of life. So it lasts at least until a term after that was sent.
func (t *Tenure) Left(at time.Time) (time.Duration, bool) { return t.term - at.Sub(t.sent), t.ends }

// Ended reports whether the lease may have ended.
func (t *Tenure) Ended(at time.Time) bool { return t.ends && at.Sub(t.sent) >= t.term }
