package folder

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestLookIsShared lets many ask for the flows while somebody looks at the files. A look that began before they asked
// may have missed a change: they share the next one.
func TestLookIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l looks
		reads := 0
		read := func() []readFlow {
			reads++
			name := strconv.Itoa(reads)
			<-time.After(time.Second)
			return []readFlow{{flow: api.Flow{Name: name}}}
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
		ask("4")
		all.Wait()
		if reads != 4 {
			t.Errorf("%d looks", reads)
		}
	})
}
