package journaltest

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// testLabels checks that rows keep their labels, and are found by them, by when they were created, and by whether they
// are stuck.
func testLabels(f *fixture) {
	f.acquire(0)
	v := &journal.View{}
	for n := range 60 {
		r := row(n)
		switch {
		case n%3 == 0:
			r.Labels = core.Labels(fmt.Sprintf("customer=c-%d\nregion=größer", n%2))
		case n == 50:
			r.Labels = "customer=c-1"
		}
		if n%10 == 0 {
			r.Wake = journal.WakeSetAside
		}
		switch {
		case n%7 == 0:
			r.Parent = core.RunID{}
		case n%7 == 1:
			r.Parent = RunID(n / 21)
		}
		v.Runs = append(v.Runs, r)
	}
	f.append(v)
	found := func(q journal.Query, keep func(n int) bool) {
		f.Helper()
		var got, want []journal.RunRow
		for q.Limit = 3; ; {
			p := f.list(q)
			got = append(got, p.Runs...)
			if !p.More {
				break
			}
			q.After = p.Runs[len(p.Runs)-1].ID
		}
		for n := 59; n >= 0; n-- {
			if keep(n) {
				want = append(want, v.Runs[n])
			}
		}
		f.equal("rows", got, want)
	}
	found(journal.Query{Labels: "customer=c-1"}, func(n int) bool { return n%6 == 3 || n == 50 })
	found(journal.Query{Labels: "customer=c-0\nregion=größer"}, func(n int) bool { return n%6 == 0 })
	found(journal.Query{Labels: "customer=c"}, func(int) bool { return false })
	found(journal.Query{CreatedFrom: at(20), CreatedBefore: at(30)}, func(n int) bool { return 20 <= n && n < 30 })
	found(journal.Query{CreatedFrom: at(45), Labels: "customer=c-1"}, func(n int) bool {
		return n == 45 || n == 50 || n == 51 || n == 57
	})
	found(journal.Query{Top: true}, func(n int) bool { return n%7 == 0 })
	found(journal.Query{Parent: RunID(1)}, func(n int) bool { return n%7 == 1 && n/21 == 1 })
	found(journal.Query{Top: true, Labels: "customer=c-1"}, func(n int) bool { return n%7 == 0 && n%6 == 3 })
	found(journal.Query{Stuck: true}, func(n int) bool { return n%10 == 0 })
	bodies := map[core.RunID]bool{RunID(3): true, RunID(10): true, RunID(55): true, RunID(777): true}
	found(journal.Query{Stuck: true, Bodies: bodies}, func(n int) bool { return n%10 == 0 || n == 3 || n == 55 })
	found(journal.Query{Stuck: true, Bodies: bodies, Labels: "customer=c-1"},
		func(n int) bool { return n == 3 || n == 50 })

	// A row replaces the one before, with its labels.
	v.Runs[3].Labels, v.Runs[9].Labels, v.Runs[4].Labels = "", "region=none", "customer=c-1"
	v.Runs[10].Wake = 0
	f.append(&journal.View{Runs: []journal.RunRow{v.Runs[3], v.Runs[4], v.Runs[9], v.Runs[10]}})
	found(journal.Query{Labels: "customer=c-1"}, func(n int) bool { return n%6 == 3 && n > 9 || n == 50 || n == 4 })
	found(journal.Query{Stuck: true}, func(n int) bool { return n%10 == 0 && n != 10 })
	found(journal.Query{}, func(int) bool { return true })
}
