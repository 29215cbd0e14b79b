package engine

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/clock"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// pacedReads is a journal that takes a while to read a history. It notes when it is read, and how far ahead windows go.
type pacedReads struct {
	*memory.Journal
	each time.Duration

	mu     sync.Mutex
	reads  []time.Time
	aheads []time.Duration
}

func (j *pacedReads) History(ctx context.Context, id core.RunID) (journal.History, error) {
	j.mu.Lock()
	j.reads = append(j.reads, time.Now())
	j.mu.Unlock()
	<-time.After(j.each)
	return j.Journal.History(ctx, id)
}

func (j *pacedReads) Due(
	ctx context.Context, partition int, from, before core.Time, limit int,
) ([]journal.Due, error) {
	if limit > 1 {
		j.mu.Lock()
		j.aheads = append(j.aheads, time.Until(before.Std()))
		j.mu.Unlock()
	}
	return j.Journal.Due(ctx, partition, from, before, limit)
}

// begin forgets what was noted.
func (j *pacedReads) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reads, j.aheads = nil, nil
}

// parts returns how many histories were read without a pause between them, and how long each pause was.
func (j *pacedReads) parts() (lengths []int, pauses []time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, at := range j.reads {
		if i == 0 {
			lengths = append(lengths, 0)
		} else if pause := at.Sub(j.reads[i-1]) - j.each; pause > 0 {
			lengths, pauses = append(lengths, 0), append(pauses, pause)
		}
		lengths[len(lengths)-1]++
	}
	return lengths, pauses
}

// windows returns how far ahead of their beginning the windows went that were read.
func (j *pacedReads) windows() []time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.aheads)
}

// lateRuns says how late runs go on that sleep.
type lateRuns struct {
	mu    sync.Mutex
	n     int
	worst time.Duration
}

func (l *lateRuns) act(due time.Time) func(core.Task) core.Input {
	return func(k core.Task) core.Input {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.n, l.worst = l.n+1, max(l.worst, time.Since(due))
		return succeed(k)
	}
}

// Windows are read, in these tests, 20 s before their first run wakes, and what wakes within 10 s is near.
const pacedHorizon = 40 * time.Second

func withPacedHorizon(c *Config) { c.Horizon = pacedHorizon }

// openPaced opens an engine with runs that sleep for 100 s. They have left memory.
func openPaced(t *testing.T, j *pacedReads, runs int, act func(core.Task) core.Input) *Engine {
	t.Helper()
	e, _ := open(t, j, -1, act, withPacedHorizon)
	for range runs {
		mustStart(t, e, flow("sleeper", nap(100*time.Second), task()))
	}
	<-time.After(30 * time.Second)
	if n := e.Stats().Loaded; n != 0 {
		t.Fatalf("%d runs are in memory", n)
	}
	j.begin()
	return e
}

// TestReaderRests checks that after each part the reader of a window rests nine times as long as it has worked. No run
// is late.
func TestReaderRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &pacedReads{Journal: memory.New(), each: time.Millisecond}
		var late lateRuns
		e := openPaced(t, j, 3*loadedPage, late.act(time.Now().Add(100*time.Second)))
		defer closeEngine(t, e)
		<-time.After(80 * time.Second)
		const rest = 9 * loadedPage * time.Millisecond
		lengths, pauses := j.parts()
		if !slices.Equal(lengths, []int{loadedPage, loadedPage, loadedPage}) ||
			!slices.Equal(pauses, []time.Duration{rest, rest}) {
			t.Errorf("parts of %d runs with rests of %s, want rests of %s", lengths, pauses, rest)
		}
		late.mu.Lock()
		defer late.mu.Unlock()
		if late.n != 3*loadedPage || late.worst > 10*time.Millisecond {
			t.Errorf("%d runs went on, the last one %s late", late.n, late.worst)
		}
	})
}

// TestRecoveryDoesNotRest checks that the first window is read without rests, because recovery waits for it.
func TestRecoveryDoesNotRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &pacedReads{Journal: memory.New(), each: time.Millisecond}
		closeEngine(t, openPaced(t, j, 3*loadedPage, succeed))
		<-time.After(50 * time.Second) // runs that are due in 20 s are not near
		e, _ := open(t, j, -1, succeed, withPacedHorizon)
		defer closeEngine(t, e)
		<-time.After(time.Minute)
		if lengths, pauses := j.parts(); !slices.Equal(lengths, []int{3 * loadedPage}) {
			t.Errorf("parts of %d runs with rests of %s, want no rest", lengths, pauses)
		}
	})
}

// TestNearRunsAreReadWithoutRests checks that near runs are read without rests: the window cannot be read for a while,
// and then its runs are near.
func TestNearRunsAreReadWithoutRests(t *testing.T) {
	for _, c := range []struct {
		broken time.Duration // the time from the start until it can be read
		rests  int
	}{
		{85 * time.Second, 2}, {95 * time.Second, 0},
	} {
		t.Run(c.broken.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &pacedReads{Journal: memory.New(), each: time.Millisecond}
				began := time.Now()
				j.Fault = func(op memory.Op, _ *journal.Batch) error {
					at := time.Since(began)
					return errorIf(op == memory.OpDue && at > time.Minute && at < c.broken, errRead)
				}
				e := openPaced(t, j, 3*loadedPage, succeed)
				defer closeEngine(t, e)
				<-time.After(80 * time.Second)
				if lengths, pauses := j.parts(); len(pauses) != c.rests {
					t.Errorf("parts of %d runs with rests of %s, want %d rests", lengths, pauses, c.rests)
				}
				if late := e.Stats().Late; late > 10*time.Millisecond {
					t.Errorf("a timer was %s late", late)
				}
			})
		})
	}
}

// TestRestEndsWithTheEngine checks that the engine does not wait for a reader that rests when it is closed.
func TestRestEndsWithTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &pacedReads{Journal: memory.New(), each: 10 * time.Millisecond}
		e := openPaced(t, j, 3*loadedPage, succeed)
		for read := 0; read < loadedPage; {
			<-time.After(j.each)
			j.mu.Lock()
			read = len(j.reads)
			j.mu.Unlock()
		}
		<-time.After(2 * j.each)
		began := time.Now()
		closeEngine(t, e)
		if took := time.Since(began); took > j.each {
			t.Errorf("the engine took %s to close", took)
		}
		if lengths, _ := j.parts(); !slices.Equal(lengths, []int{loadedPage}) {
			t.Errorf("parts of %d runs were read", lengths)
		}
	})
}

// TestRestsMakeNoLongerWindows checks that rests do not count for the time of the next window, even if the reader rests
// for so long that the next window would be read earlier.
func TestRestsMakeNoLongerWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &pacedReads{Journal: memory.New(), each: 1500 * time.Microsecond}
		e, _ := open(t, j, -1, succeed, withPacedHorizon)
		defer closeEngine(t, e)
		for n := range 18 * loadedPage {
			mustStart(t, e, flow("sleeper", nap(100*time.Second+time.Duration(n/loadedPage)*time.Second), task()))
		}
		mustStart(t, e, flow("much later", nap(1000*time.Second)))
		<-time.After(30 * time.Second)
		j.begin()
		<-time.After(1100 * time.Second)
		if _, pauses := j.parts(); len(pauses) < 17 {
			t.Fatalf("the reader rests %d times", len(pauses))
		}
		for i, ahead := range j.windows() {
			if ahead > pacedHorizon {
				t.Errorf("window %d goes %s ahead", i+1, ahead)
			}
		}
	})
}

// TestLengthOfRests checks that a rest ends before the last run that was read is near, and is never long.
func TestLengthOfRests(t *testing.T) {
	p := &pace{near: 10 * time.Second}
	for _, c := range []struct{ worked, wakesIn, want time.Duration }{
		{time.Millisecond, 20 * time.Second, 9 * time.Millisecond},
		{100 * time.Millisecond, 20 * time.Second, 900 * time.Millisecond},
		{100 * time.Millisecond, 10*time.Second + 300*time.Millisecond, 300 * time.Millisecond},
		{100 * time.Millisecond, 10 * time.Second, 0},
		{time.Second, time.Minute, longestRest},
	} {
		if got := p.length(c.worked, c.wakesIn); got != c.want {
			t.Errorf("after %s, %s before the run wakes: %s, want %s", c.worked, c.wakesIn, got, c.want)
		}
	}
}

// TestNoRestsInAnotherTime checks that there are no rests if the clock is not the system's: nobody can say then how far
// away a run is.
func TestNoRestsInAnotherTime(t *testing.T) {
	w := Window{From: 2, Before: epoch.Add(time.Hour)}
	if p := newPace(w, &clock.Clock{}, epoch); p.off {
		t.Error("the reader of a later window does not rest")
	}
	fixed := clock.New(func() core.Time { return epoch }, nil)
	if p := newPace(w, &fixed, epoch); !p.off {
		t.Error("the reader rests by the system's clock while the engine's stands still")
	}
}

// TestRestsMakeNoShorterWindows checks that the next window is read earlier if reading takes long, also when the reader
// has rested after its last part.
func TestRestsMakeNoShorterWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &pacedReads{Journal: memory.New(), each: 200 * time.Millisecond}
		e := openPaced(t, j, loadedPage-1, succeed)
		defer closeEngine(t, e)
		mustStart(t, e, flow("last of the part", nap(80*time.Second)))
		mustStart(t, e, flow("much later", nap(1000*time.Second)))
		<-time.After(1100 * time.Second)
		const took = loadedPage * 200 * time.Millisecond
		if all := j.windows(); all[len(all)-1] != 4*took {
			t.Errorf("after one that took %s to read, windows go %s ahead, the last one is wanted to go %s", took,
				all, 4*took)
		}
	})
}
