// Package virtual has a clock that moves only when somebody moves it, so that days of retries and sleeps pass in
// moments. A database whose runs were made with such a clock is marked, and can only be opened with one.
package virtual

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
)

const (
	documentVersion = 1 // version of the stored form

	markKey = "clock/virtual"
	// patience is how long, by the clock on the wall, attempts that execute may take before the clock is moved on. A
	// hanging attempt has to meet its limit.
	patience = 5 * time.Second
	lookSoon = time.Millisecond     // the pause between two looks whether everything due has happened
	longest  = 366 * 24 * time.Hour // the longest move until the end
	saveIn   = time.Second          // how often the clock is saved while it is moved
)

// mark is the stored form of the clock.
type mark struct {
	Now api.Time `json:"now"`
}

// Clock is a clock that moves only when somebody moves it. Its methods are safe for concurrent use.
type Clock struct {
	now       atomic.Int64
	documents journal.Documents
	moving    sync.Mutex
}

// Of returns the clock of a database that has no engine yet. A new database is marked, and its clock shows the instant
// begin. Errors: CodeConflict (the runs of the database have the time of the wall clock).
func Of(ctx context.Context, j journal.Journal, begin core.Time) (*Clock, error) {
	c := &Clock{documents: j}
	m, err := read(ctx, j)
	if err != nil {
		return nil, err
	}
	if m != nil {
		c.now.Store(int64(m.Now))
		return c, nil
	}
	spans, err := j.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range spans {
		if s.Last > 0 {
			return nil, &api.Error{
				Code: api.CodeConflict, Message: "the runs of this database have the time of the wall clock",
				Hint: "choose a new database for virtual time",
			}
		}
	}
	c.now.Store(int64(begin))
	return c, c.save(ctx)
}

// Shown returns what the clock of a database showed last that is open for reading, or 0 if it has none.
func Shown(ctx context.Context, j journal.Journal) (core.Time, error) {
	m, err := read(ctx, j)
	if err != nil || m == nil {
		return 0, err
	}
	return core.Time(m.Now), nil
}

// Refuse returns an error if a database has a virtual clock. A process with a running clock would let all future work
// happen at once. Errors: CodeConflict.
func Refuse(ctx context.Context, j journal.Journal) error {
	m, err := read(ctx, j)
	if err != nil || m == nil {
		return err
	}
	return &api.Error{
		Code: api.CodeConflict, Message: "the runs of this database have virtual time; there it is " +
			m.Now.String(),
		Hint: "open it with pawl dev --virtual-time",
	}
}

func read(ctx context.Context, documents journal.Documents) (*mark, error) {
	found, err := documents.ReadDocuments(ctx, markKey)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	var m mark
	return &m, journal.DecodeDocument(found[0].Value, documentVersion, &m)
}

func (c *Clock) save(ctx context.Context) error {
	text, err := journal.EncodeDocument(documentVersion, mark{api.Time(c.now.Load())})
	if err != nil {
		return err
	}
	return c.documents.PutDocuments(ctx, journal.Document{Key: markKey, Value: text})
}

// Now returns the instant that the clock shows.
func (c *Clock) Now() core.Time { return core.Time(c.now.Load()) }

// EngineReads is the part of its engine that a clock needs.
type EngineReads interface {
	Stats() engine.Stats
	List(ctx context.Context, q journal.Query) (journal.Page, error)
}

// hand is one move of a clock.
type hand struct {
	clock  *Clock
	engine EngineReads
	waited int // number of attempts that have used up the patience
	steps  int
	saved  time.Time
}

// Mover moves the clock of an engine.
type Mover struct {
	clock  *Clock
	engine EngineReads
}

var _ api.Clock = (*Mover)(nil)

// NewMover returns what moves the clock of an engine.
func NewMover(c *Clock, e EngineReads) *Mover { return &Mover{c, e} }

func (m *Mover) Clock(context.Context) (api.ClockState, error) { return m.state(), nil }

func (m *Mover) state() api.ClockState {
	st := m.engine.Stats()
	return api.ClockState{Now: api.Time(m.clock.Now()), Next: api.Time(st.Wake), Live: st.Live}
}

func (m *Mover) MoveClock(ctx context.Context, move api.ClockMove) (out api.ClockState, err error) {
	given := 0
	for _, is := range []bool{move.By != 0, move.To != 0, move.Next, move.End} {
		if is {
			given++
		}
	}
	if given != 1 || move.By < 0 || move.AtMost < 0 || move.AtMost != 0 && !move.End {
		return out, &api.Error{
			Code: api.CodeInvalid, Message: "say how far the clock is moved: by, to, next or end; atMost is for end",
		}
	}
	if !m.clock.moving.TryLock() {
		return out, &api.Error{Code: api.CodeConflict, Message: "somebody else moves the clock"}
	}
	defer m.clock.moving.Unlock()
	h := &hand{clock: m.clock, engine: m.engine, saved: time.Now()}
	if err = h.settle(ctx); err != nil {
		return out, err
	}
	target, more := h.target(move), false
	if target < m.clock.Now() {
		return out, &api.Error{Code: api.CodeInvalid, Message: "the clock shows " + m.state().Now.String() +
			" already, and is not moved back"}
	}
	from := m.clock.Now()
	more, err = h.move(ctx, target, move.End)
	err = errors.Join(err, m.clock.save(context.WithoutCancel(ctx)))
	out = m.state()
	out.Moved, out.Steps, out.More = core.Time(out.Now) > from, h.steps, more && move.End
	return out, err
}

// target returns where a move ends.
func (h *hand) target(move api.ClockMove) core.Time {
	now := h.clock.Now()
	switch {
	case move.Next:
		return max(now, h.engine.Stats().Wake)
	case move.To != 0:
		return core.Time(move.To)
	case move.End && move.AtMost == 0:
		return now.Add(longest)
	case move.End:
		return now.Add(move.AtMost.Std())
	default:
		return now.Add(move.By.Std())
	}
}

// move moves the clock from one instant at which something is due to the next one, up to the target. It reports whether
// there is more to come. With end it stops where nothing is left to come.
func (h *hand) move(ctx context.Context, target core.Time, end bool) (more bool, err error) {
	for {
		st := h.engine.Stats()
		now := h.clock.Now()
		if end && st.Wake == 0 && st.Live == 0 {
			return false, nil
		}
		if now >= target {
			return st.Wake != 0 || st.Live > 0, nil
		}
		to := target
		if st.Next > now {
			to = min(to, st.Next)
		}
		if to == st.Wake {
			h.steps++
		}
		h.clock.now.Store(int64(to))
		if err := h.settle(ctx); err != nil {
			return false, err
		}
		if time.Since(h.saved) > saveIn {
			h.saved = time.Now()
			if err := h.clock.save(ctx); err != nil {
				return false, err
			}
		}
	}
}

// settle waits until all has happened that is due by now. It waits for attempts that execute, but not forever.
func (h *hand) settle(ctx context.Context) error {
	began := time.Now()
	look := time.NewTicker(lookSoon)
	defer look.Stop()
	for still, seq := 0, uint64(0); still < 2; {
		// The list goes through the loop of the engine, which then reads the clock.
		if _, err := h.engine.List(ctx, journal.Query{Limit: 1}); err != nil {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return &api.Error{Code: api.CodeCancelled, Err: ctx.Err()}
		}
		st := h.engine.Stats()
		if st.Stalled != "" {
			return &api.Error{Code: api.CodeStalled, Message: st.Stalled}
		}
		working := st.Live > h.waited
		if working && time.Since(began) > patience {
			h.waited, working = st.Live, false
		}
		h.waited = min(h.waited, st.Live)
		due := st.Next != 0 && st.Next <= h.clock.Now()
		if still++; st.Moving || due || working || st.Seq != seq {
			still, seq = 0, st.Seq
		}
	}
	return nil
}
