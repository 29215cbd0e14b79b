package folder

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestLookIsShared lets many ask for the flows while somebody looks at the files. A look that began before they asked
// may have missed a change: they share the next one. Where there are few flows, each looks at once.
func TestLookIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l looks
		var reads, flows atomic.Int64
		flows.Store(fewFlows + 1)
		read := func() []readFlow {
			name := strconv.FormatInt(reads.Add(1), 10)
			<-time.After(time.Second)
			return slices.Repeat([]readFlow{{flow: api.Flow{Name: name}}}, int(flows.Load()))
		}
		var all sync.WaitGroup
		ask := func(want string) {
			all.Go(func() {
				if got := l.share(read)[0].flow.Name; got != want {
					t.Errorf("the answer is that of look %s, not %s", got, want)
				}
			})
			synctest.Wait()
		}
		ask("1")
		for range 100 {
			ask("2")
		}
		<-time.After(1500 * time.Millisecond)
		ask("3")
		all.Wait()
		flows.Add(-1)
		ask("4")
		all.Wait()
		for _, own := range []string{"5", "6", "7"} { // nobody waits where there are few
			ask(own)
		}
		<-time.After(500 * time.Millisecond)
		flows.Add(1)
		all.Wait()
		ask("8")
		ask("9")
		ask("9")
		all.Wait()
		if n := reads.Load(); n != 9 {
			t.Errorf("%d looks", n)
		}
	})
}
