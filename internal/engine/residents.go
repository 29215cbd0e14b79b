package engine

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/heap"
)

// Window is a span of wake times. Runs that wake within it are loaded into memory and stay there.
type Window struct {
	From, Before core.Time
	gen          uint64        // grows when the memory is forgotten; a window of an older one is ignored
	rested       time.Duration // how long its reader has rested, once it is done
}

// residents are the runs in memory, with the indexes that find them and the window of wake times that is in memory.
// They know nothing of batches, tasks or callers.
type residents struct {
	*base
	audience *audience // callers that wait for a run, which get an error when it is set aside
	runs     map[core.RunID]*run
	aside    map[core.RunID]*aside   // runs that are set aside, and why
	runsHere map[core.RunID]struct{} // runs that are known not to be set aside; see checkRunsHere
	byName   map[string]core.RunID   // open runs in memory by workflow id
	byKey    map[startKey]core.RunID // runs in memory by workflow and idempotency key
	wakes    wakes

	toEvict  []*run // loaded for the current input; they may leave memory after it
	recent   recent // outcomes of runs that left memory
	leaving  map[core.RunID][]*RemoveCall
	warm     warmRuns
	restored ring[*run] // read at open, with attempts of an earlier owner that still have to be recovered

	window        Window
	readingWindow bool                    // a reader reads the runs of the window now
	evicted       map[core.RunID]struct{} // runs that left memory since that reader began
	nextWake      core.Time               // the first known wake time after the window; 0: none is known
	windowBegan   core.Time               // when that reader began, or the last one
	windowTook    time.Duration           // how long it took to read the last window, without rests
	windowRetry   time.Duration           // the delay after which a window that could not be read is read again
	carried       int                     // how many families Config.Carried had when the partition looked last
	activeRead    bool                    // the first window was read, so that all active runs are in memory

	// These two are not forgotten.
	opened core.Time     // when the partition was opened first; 0 if it was not
	late   time.Duration // how late the timer was that fired latest since then
}

// forget empties the memory.
func (s *residents) forget() {
	*s = residents{
		runs: make(map[core.RunID]*run), aside: make(map[core.RunID]*aside),
		runsHere: make(map[core.RunID]struct{}),
		byName:   make(map[string]core.RunID), byKey: make(map[startKey]core.RunID),
		window: Window{gen: s.window.gen + 1}, opened: s.opened, late: s.late, base: s.base, audience: s.audience,
	}
}

// newID makes the id of a new run. The names that the caller chose give its partition key. A run without names gets
// a random key of this partition.
func (s *residents) newID(workflow, workflowID, key string) core.RunID {
	for {
		high, low := s.cfg.Random(), s.cfg.Random()
		place := core.KeyOfStart(workflow, workflowID, key, s.ownKey(uint16(low>>48)))
		id := core.NewRunID(s.now, place, high, low)
		if s.runs[id] == nil {
			return id
		}
	}
}

// create makes a new run and puts it into memory.
func (s *residents) create(id core.RunID, kind *Kind) *run {
	r := &run{state: core.NewRun(id), kind: kind}
	s.runs[id] = r
	return r
}

// addRestored puts a run that was read from the journal into memory. If it is active, its attempts are those of an
// earlier owner, because this partition never evicts an active run.
func (s *residents) addRestored(r *run) {
	s.runs[r.id()] = r
	s.addNames(r)
	s.retime(r)
	r.unrecovered = r.state.Active() || r.state.UsesQueue() || r.state.Compensating()
	r.noteRecorded()
}

// retime moves the run to its wake time in the heap.
func (s *residents) retime(r *run) {
	if r.state.Phase.Closed() || r.rests {
		s.wakes.set(r, 0)
		return
	}
	s.wakes.set(r, r.state.Wake())
}

// addNames makes an open run findable by its workflow id and its key.
func (s *residents) addNames(r *run) {
	st := r.state
	if st.WorkflowID != "" && !st.Phase.Closed() {
		s.byName[st.WorkflowID] = st.ID
	}
	if st.Key != "" && st.Next == (core.RunID{}) { // a key finds the last run of a chain
		s.byKey[startKey{st.Workflow, st.Key}] = st.ID
	}
}

// removeNames removes a run from the indexes: from that of workflow ids when it ends, from both when it leaves
// memory.
func (s *residents) removeNames(r *run, leaves bool) {
	st := r.state
	if st.WorkflowID != "" && s.byName[st.WorkflowID] == st.ID {
		delete(s.byName, st.WorkflowID)
	}
	if key := (startKey{st.Workflow, st.Key}); leaves && st.Key != "" && s.byKey[key] == st.ID {
		delete(s.byKey, key)
	}
}

// evictLater remembers a run that was loaded for the current input.
func (s *residents) evictLater(r *run) { s.toEvict = append(s.toEvict, r) }

// evictUnneeded evicts the runs that were loaded for the current input and are not needed after it.
func (s *residents) evictUnneeded() {
	for i, r := range s.toEvict {
		s.evict(r)
		s.toEvict[i] = nil
	}
	s.toEvict = s.toEvict[:0]
}

// evict drops a run from memory if the view has all of it and nothing is due soon.
func (s *residents) evict(r *run) {
	// An attempt may still be stopping after the end of its run. The run stays until then: a retry has to know of
	// that attempt.
	if !r.viewed() || r.unrecovered || s.runs[r.id()] != r || (r.aside == nil && r.state.Live() > 0) {
		return
	}
	if r.aside == nil && !r.state.Phase.Closed() {
		if r.state.Active() || r.state.UsesQueue() || r.state.Compensating() ||
			(r.wake != 0 && r.wake < s.window.Before) {
			return
		}
		if s.keepWarm(r) {
			return
		}
		if r.wake != 0 {
			s.nextWake = earliest(s.nextWake, r.wake)
		}
	}
	s.drop(r)
}

// keepWarm keeps an open run in memory if it is worth it, and reports whether it stays. Others may leave in its place.
func (s *residents) keepWarm(r *run) bool {
	if !r.stays() {
		return false
	}
	for _, other := range s.warm.keep(r) {
		s.drop(other)
	}
	return true
}

// drop removes a run from memory.
func (s *residents) drop(r *run) {
	if s.readingWindow {
		s.evicted[r.id()] = struct{}{}
	}
	s.warm.leave(r)
	s.wakes.remove(r)
	s.removeNames(r, true)
	if r.aside == nil {
		s.recent.left(r.state)
	}
	delete(s.runs, r.id())
	s.left(r.id())
}

func notEnded(id core.RunID) error {
	return &Error{
		Code: CodeConflict, Op: "remove", ID: id.String(), Err: errors.New("the run has not ended"),
		Hint: "cancel or terminate it first",
	}
}

// RemoveCall prepares the removal of a run that has ended: it is answered once the view has the whole run and memory
// has nothing of it.
type RemoveCall struct {
	repeating[struct{}]
	Run  core.RunID
	Gone bool // the journal has removed the run: nobody may be told of it any more
}

func (*RemoveCall) op() string { return "remove" }

func (c *RemoveCall) do(p *Partition) {
	s := &p.residents
	r := s.runs[c.Run]
	switch {
	case s.aside[c.Run] != nil:
		c.Err = failure(c.op(), c.Run.String(), s.aside[c.Run])
	case r != nil && !r.state.Phase.Closed():
		c.Err = notEnded(c.Run)
	case r != nil && !c.Gone:
		if s.leaving == nil {
			s.leaving = make(map[core.RunID][]*RemoveCall)
		}
		s.leaving[c.Run] = append(s.leaving[c.Run], c)
		if r.firstPending != 0 {
			p.pipeline.view.urgent = append(p.pipeline.view.urgent, r)
		} else {
			s.evictLater(r)
		}
		return
	default:
		s.recent.remove(c.Run)
	}
	p.pipeline.reply(c)
}

// left answers those who wait until a run has left memory.
func (s *residents) left(id core.RunID) {
	for _, c := range s.leaving[id] {
		s.recent.remove(id)
		c.answer()
	}
	delete(s.leaving, id)
}

// answerLeaving answers all who wait until a run leaves memory: with an error, or so that they ask again.
func (s *residents) answerLeaving(err error, again bool) {
	for _, calls := range s.leaving {
		for _, c := range calls {
			c.Err, c.batchFailed = err, again
			c.answer()
		}
	}
	clear(s.leaving)
}

// Each calls fn with the state of each run in memory, ordered by id. Runs that are set aside are left out. A state may
// be ahead of what is durable, and fn must not change it.
func (p *Partition) Each(fn func(*core.Run)) {
	ids := slices.SortedFunc(maps.Keys(p.residents.runs), func(a, b core.RunID) int {
		return bytes.Compare(a[:], b[:])
	})
	for _, id := range ids {
		if r := p.residents.runs[id]; r.aside == nil {
			fn(r.state)
		}
	}
}

// lateTimer is how late a timer must be to be logged.
const lateTimer = time.Second

// noteFired notes that a run was due and was woken now. What was due before the partition was opened is as late as the
// opening, which is not a fault.
func (s *residents) noteFired(r *run, due core.Time) {
	if s.cfg.Observer.Fired != nil {
		s.cfg.Observer.Fired(due, s.now)
	}
	late := s.now.Sub(max(due, s.opened))
	if late <= s.late {
		return
	}
	s.late = late
	if late >= lateTimer {
		s.cfg.Log.Warn("a timer fired late: the process was stopped, or it waited for its storage",
			"run", r.id().String(), "due", due.String(), "late", late.String())
	}
}

// wakes orders the runs in memory by wake time. Runs with the same wake time are ordered by id, so that the same
// calls always give the same order.
type wakes struct{ heap heap.Heap[*run] }

// Before orders runs by wake time.
func (r *run) Before(o *run) bool {
	if r.wake != o.wake {
		return r.wake < o.wake
	}
	return bytes.Compare(r.state.ID[:], o.state.ID[:]) < 0
}

// Moved notes the run's place in the heap.
func (r *run) Moved(to int) { r.place = to }

// set gives the run a wake time. Zero removes the run.
func (w *wakes) set(r *run, at core.Time) {
	switch {
	case r.wake == at:
	case at == 0:
		w.remove(r)
	case r.wake == 0:
		r.wake = at
		w.heap.Push(r)
	default:
		r.wake = at
		w.heap.Fix(r.place)
	}
}

// first returns the run with the earliest wake time, or nil if there is none.
func (w *wakes) first() *run {
	if w.heap.Len() == 0 {
		return nil
	}
	return w.heap.First()
}

// next returns the earliest wake time, zero if there is none.
func (w *wakes) next() core.Time {
	if r := w.first(); r != nil {
		return r.wake
	}
	return 0
}

func (w *wakes) remove(r *run) {
	if r.wake != 0 {
		w.heap.Remove(r.place)
		r.wake = 0
	}
}
